"""An engine's log, followed live: one follower per engine and web process, shared by all its viewers.

The log is polled while a pane with it is open. The node stops sending within a minute after the last pane was closed.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import msgspec
import structlog

from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.nodes.logs import LogFollower, LogLine
from dalston_queue.broker.protocol.validate import moment
from dalston_queue.dashboard.nodes.read import shared
from dalston_queue.redis import get_broker

log = structlog.get_logger(__name__)

KEPT = 500
"""Lines for panes that are opened later, and for slow viewers."""
MAX_CHARACTERS = 2000
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles and links
    r"|[@-Z\\-_])"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # other control characters
)


class LogMessage(msgspec.Struct, frozen=True):
    """One message to the browser: new lines, and what is wrong, if anything. JSON, not HTML: the page inserts the lines
    as text, so that nothing in a log is ever markup."""

    lines: list[str]
    problem: str = ""


class NoSuchEngine(LookupError):
    """The engine may still come: the next poll asks again."""


class LogFeed:
    """The log of one engine as a polled source (polling.py), for all its viewers."""

    tick_s = 0.7
    threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="engine-logs")

    def __init__(self, node_id: str, slot: str) -> None:
        self._node_id, self._slot = node_id, slot
        self._follower: LogFollower | None = None
        self._lock = threading.Lock()
        self._version = 0
        self._lines: deque[tuple[int, str]] = deque(maxlen=KEPT)  # with the version that brought them
        self._problem = ""

    def poll(self) -> None:
        try:
            lines, problem = self._read(), ""
        except NoSuchEngine as error:
            lines, problem = [], str(error)
        except BrokerError as error:
            log.warning("dashboard.log_unavailable", node=self._node_id, slot=self._slot, error=str(error))
            lines, problem = [], "Redis does not answer"
        except Exception:
            # Otherwise the pane would stop and still say that it follows.
            log.exception("dashboard.log_failed", node=self._node_id, slot=self._slot)
            lines, problem = [], "The log could not be read; trying again"
        if lines or problem != self._problem:
            with self._lock:
                self._version += 1
                self._lines.extend((self._version, shown(line)) for line in lines)
                self._problem = problem

    def since(self, seen: int) -> tuple[list[str], int]:
        with self._lock:
            if self._version == seen:
                return [], seen
            message = LogMessage([text for version, text in self._lines if version > seen], self._problem)
            return [msgspec.json.encode(message).decode()], self._version

    def _read(self) -> list[LogLine]:
        if self._follower is None:
            if not _exists(self._node_id, self._slot):
                raise NoSuchEngine(f"There is no engine {self._slot} on {self._node_id}.")
            self._follower = get_broker().logs(self._node_id).follow(self._slot, "dashboard")
        return self._follower.read()


def _exists(node_id: str, slot: str) -> bool:
    """Checked first: a request would leave a command behind for a node that does not exist."""
    nodes = shared.get().nodes or ()
    return any(node.id == node_id and slot in {engine.slot for engine in node.engines} for node in nodes)


def shown_text(text: str) -> str:
    return _ESCAPES.sub("", text)[:MAX_CHARACTERS]


def shown(line: LogLine) -> str:
    """A line as a page shows it: with its time, and without escape sequences."""
    text = shown_text(line.text)
    at = moment(line.at_ms).strftime("%H:%M:%S ") if line.at_ms else ""
    return at + text

"""An engine's log, followed live: one follower per engine and web process, shared by all who read it.

It lives while somebody reads; the node stops sending within a minute after the last one left.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable
from weakref import WeakKeyDictionary

import msgspec
import structlog

from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.nodes.logs import LogFollower, LogLine
from dalston_queue.broker.protocol.moments import moment
from dalston_queue.dashboard.live.hub import threads
from dalston_queue.dashboard.nodes.read import shared
from dalston_queue.redis import get_broker

log = structlog.get_logger(__name__)

TICK_S = 0.7
KEPT = 500
"""Lines for somebody who opens the pane later, or reads slowly."""
LONGEST = 2000
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles and links
    r"|[@-Z\\-_])"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # and what else a terminal would obey
)


class Said(msgspec.Struct, frozen=True):
    """One message to the browser: new lines, and what is wrong, if anything."""

    lines: list[str]
    problem: str = ""


class NoSuchEngine(LookupError):
    """It may come: the reader is told, and asked again."""


class LogHub:
    def __init__(self, node_id: str, slot: str, forget: Callable[[], object]) -> None:
        self._node_id, self._slot = node_id, slot
        self._forget = forget
        self._lines: deque[str] = deque(maxlen=KEPT)
        self._count = 0  # lines ever
        self._problem = ""
        self._follower: LogFollower | None = None
        self._news = asyncio.Condition()
        self._readers = 0
        self._working: asyncio.Task[None] | None = None

    async def follow(self) -> AsyncGenerator[str, None]:
        self._readers += 1
        self._working = self._working or asyncio.create_task(self._run())
        seen, problem = 0, ""
        try:
            while True:
                async with self._news:
                    while self._count == seen and self._problem == problem:
                        await self._news.wait()
                fresh = min(self._count - seen, len(self._lines))
                seen, problem = self._count, self._problem
                said = Said(list(self._lines)[len(self._lines) - fresh :], problem)
                yield msgspec.json.encode(said).decode()
        finally:
            self._readers -= 1
            if self._readers == 0:
                self._working.cancel()
                self._forget()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                lines, problem = await loop.run_in_executor(threads, self._read), ""
            except NoSuchEngine as error:
                lines, problem = [], str(error)
            except BrokerError as error:
                log.warning("dashboard.log_unavailable", node=self._node_id, slot=self._slot, error=str(error))
                lines, problem = [], "Redis does not answer"
            except Exception:
                # Without this the pane would stand still and still say that it follows.
                log.exception("dashboard.log_failed", node=self._node_id, slot=self._slot)
                lines, problem = [], "The log could not be read; trying again"
            if lines or problem != self._problem:
                async with self._news:
                    self._lines.extend(shown(line) for line in lines)
                    self._count += len(lines)
                    self._problem = problem
                    self._news.notify_all()
            await asyncio.sleep(TICK_S)

    def _read(self) -> list[LogLine]:
        if self._follower is None:
            if not _exists(self._node_id, self._slot):
                raise NoSuchEngine(f"There is no engine {self._slot} on {self._node_id}.")
            self._follower = get_broker().logs(self._node_id).follow(self._slot, "dashboard")
        return self._follower.read()


def _exists(node_id: str, slot: str) -> bool:
    """Asking would leave a command behind for a node that nobody has."""
    nodes = shared.get().nodes or ()
    return any(node.id == node_id and slot in {engine.slot for engine in node.engines} for node in nodes)


def shown(line: LogLine) -> str:
    """As it may stand on a page: with its time, and without anything that a terminal would obey."""
    text = _ESCAPES.sub("", line.text)[:LONGEST]
    at = moment(line.at_ms).strftime("%H:%M:%S ") if line.at_ms else ""
    return at + text


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str], LogHub]] = WeakKeyDictionary()


def log_hub_of(node_id: str, slot: str) -> LogHub:
    hubs = _hubs.setdefault(asyncio.get_running_loop(), {})
    key = (node_id, slot)
    if key not in hubs:
        hubs[key] = LogHub(node_id, slot, lambda: hubs.pop(key))
    return hubs[key]

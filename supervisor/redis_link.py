"""The supervisor's link to Redis: a thread of its own, so that a slow or absent Redis delays no signal and no restart.

It sends the node's heartbeat, reclaims dead engines' tasks, polls for tasks past their deadline and receives commands.
Messages that can't be sent during an outage are kept and sent in order when Redis is back.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from dalston_queue.broker import Broker
from dalston_queue.broker.errors import BrokerError, Invalid, WrongKeyType
from dalston_queue.broker.nodes.commands import Reply
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.operations.reclaim import Expired
from dalston_queue.broker.protocol.messages import ErrorInfo
from dalston_queue.broker.protocol.types import Cause, NodeState
from dalston_queue.broker.views.pages import PendingEntry, PendingOrder

from .events import Commanded, Event, Overdue, WorkReclaimed
from .logs.reader import Line

log = structlog.get_logger("supervisor.redis_link")

POLL_EVERY_S = 1.0  # for overdue tasks and commands; or DALSTON_HEARTBEAT_S, if that is shorter
RETRY_EVERY_S = 0.5
QUESTION_TIMEOUT_S = 10.0
OVERDUE_MS = 2500
"""Past its deadline in Redis, which counts from the claim: a prefetched task may have started a second later (see
docs/adr/0024-prefetch.md), and a task that stops when cancelled has ended by then, so that its engine may live."""
MAIN_LOOP_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Report:
    """Content of the next heartbeat."""

    state: NodeState
    engines: tuple[EngineBeat, ...]
    info: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReclaimWork:
    """Reclaims all tasks of an engine; with `forget`, the engine is removed from the registry, too."""

    engine_id: str
    queues: tuple[str, ...]
    cause: Cause
    error: ErrorInfo
    named: str | None = None  # the task to blame, if there is evidence
    forget: bool = True


@dataclass(frozen=True, slots=True)
class LogLines:
    """For the subscribers of a slot's log, or in answer to one `tail_logs` command."""

    slot: str
    lines: list[Line]
    request_id: str = ""


class Link:
    """`post` enqueues an event for the main loop; it is called from the link's thread."""

    def __init__(
        self,
        broker: Broker,
        node: str,
        post: Callable[[Event], None],
        *,
        heartbeat_s: float,
        max_deliveries: int,
        max_losses: int,
        after: str = "0",
    ) -> None:
        self.broker = broker
        self.channel = broker.node(node)
        self.logs = broker.logs(node)
        self.after = after  # entry id of the last command received
        # The same for questions. No client waits for the answer to an old one.
        self.asked = f"{int((time.time() - QUESTION_TIMEOUT_S) * 1000)}-0"
        self.node = node
        self.post = post
        self.heartbeat_s = heartbeat_s
        self.max_deliveries = max_deliveries
        self.max_losses = max_losses
        self.up = True
        self.alive_at = time.monotonic()  # when the main loop last reported
        self._answered_at = float("-inf")
        self._report: Report | None = None
        self._beat_now = self._beat_soon = False
        self._outbox: deque[ReclaimWork | Reply | LogLines] = deque()
        self._gone: deque[str] = deque(maxlen=1000)
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="redis", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def publish(self, report: Report) -> None:
        """Sends a change of state at once, everything else with the next beat."""
        if self._report is None or _state_of(report) != _state_of(self._report):
            self._beat_now = True
            self._wake.set()
        elif _tasks_of(report) != _tasks_of(self._report):
            self._beat_soon = True  # with the next poll: a thousand short tasks must not cause a thousand beats
        self._report = report

    def send(self, message: ReclaimWork | Reply | LogLines) -> None:
        """Sends it after all earlier messages, as soon as Redis answers."""
        self._outbox.append(message)
        self._wake.set()

    @property
    def report(self) -> Report | None:
        """The last report, for /metrics."""
        return self._report

    def idle_s(self) -> float:
        """How long the main loop has not reported."""
        return time.monotonic() - self.alive_at

    def silent_s(self) -> float:
        """How long Redis has not answered."""
        return time.monotonic() - self._answered_at

    def close(self, timeout: float) -> None:
        """Sends the remaining messages within the timeout and removes the node from the registry."""
        self._closing = True
        self._wake.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        next_beat = next_poll = 0.0
        while not (self._closing and not self._outbox):
            now = time.monotonic()
            asked = bool(self._outbox)
            try:
                self._flush()
                if (self._beat_now or now >= next_beat) and self._beat(now):
                    next_beat = now + self.heartbeat_s
                    asked = True
                if now >= next_poll and not self._closing:
                    asked = True
                    next_poll = now + min(POLL_EVERY_S, self.heartbeat_s)
                    self._beat_now = self._beat_now or self._beat_soon
                    self._receive_commands()
                    self._find_overdue()
                if asked:  # else Redis may still be away: nothing was due
                    self._mark(up=True)
                self._sleep(min(next_beat, next_poll) - time.monotonic())
            except BrokerError as error:
                self._mark(up=False, why=str(error))
                self._sleep(RETRY_EVERY_S, ignore_wakes=True)
            except Exception:
                # A node that stops beating because of a bug here would be judged dead: log it and go on.
                log.exception("the link to redis failed")
                self._sleep(RETRY_EVERY_S, ignore_wakes=True)
        with contextlib.suppress(BrokerError):
            engines = [engine.engine_id for engine in self._last_engines()]
            self.broker.registry.forget(engines, [self.node], with_commands=False)

    def _last_engines(self) -> tuple[EngineBeat, ...]:
        return self._report.engines if self._report else ()

    def _sleep(self, seconds: float, *, ignore_wakes: bool = False) -> None:
        if ignore_wakes and not self._closing:
            time.sleep(seconds)  # a wake-up would only make us retry faster
        elif seconds > 0:
            self._wake.wait(seconds)
        self._wake.clear()

    def _flush(self) -> None:
        while self._outbox:
            try:
                self._deliver(self._outbox[0])
            except (Invalid, WrongKeyType) as error:
                # Redis will never accept it, and later messages must not wait for it. The judge reclaims the tasks of
                # an engine that doesn't beat any more.
                log.error("message dropped", what=type(self._outbox[0]).__name__, why=str(error))
            except BrokerError:
                if isinstance(self._outbox[0], LogLines):
                    self._outbox.popleft()  # its readers are gone by then, and reclaims wait behind it
                raise
            self._outbox.popleft()  # only now: a message that an outage interrupted is sent again; each is idempotent

    def _deliver(self, message: ReclaimWork | Reply | LogLines) -> None:
        match message:
            case ReclaimWork():
                self._reclaim(message)
            case LogLines():
                self.logs.write(message.slot, message.lines, message.request_id)
            case Reply():
                self.channel.reply(message)

    def _reclaim(self, work: ReclaimWork) -> None:
        reclaimed = self.broker.reclaim(
            work.engine_id,
            work.queues,
            work.cause,
            named=work.named,
            error=work.error,
            max_deliveries=self.max_deliveries,
            max_losses=self.max_losses,
        )
        if work.forget:
            self._gone.append(work.engine_id)
            self.broker.registry.forget([work.engine_id])
        self.post(WorkReclaimed(work.engine_id, reclaimed))

    def _receive_commands(self) -> None:
        for command in self.channel.receive(self.after, asked=self.asked):
            if command.asks:
                self.asked = command.entry_id
            else:
                self.after = command.entry_id
            self.post(Commanded(command))

    def _beat(self, now: float) -> bool:
        """Sends the heartbeat, unless the main loop stands still: then the node has to be judged dead."""
        if self._report is None or now - self.alive_at > MAIN_LOOP_TIMEOUT_S:
            return False
        self._beat_now = self._beat_soon = False
        report = self._report
        # The report may be older than a reclaim: it must not register a forgotten engine again.
        engines = [engine for engine in report.engines if engine.engine_id not in self._gone]
        self.broker.registry.beat_node(self.node, report.state, engines, report.info)
        return True

    def _find_overdue(self) -> None:
        report = self._report
        if report is None:
            return
        mine = {engine.engine_id for engine in report.engines}
        for queue in sorted({queue for engine in report.engines for queue in engine.queues}):
            with contextlib.suppress(WrongKeyType):  # the scanner reports it; the other queues go on
                page = self.broker.pending(queue, order=PendingOrder.DEADLINE, overdue_by_ms=OVERDUE_MS, limit=200)
                for entry in page.entries:
                    if entry.record.owner in mine:
                        self._expire(entry)

    def _expire(self, entry: PendingEntry) -> None:
        """Settles the task as timed out before its engine is killed, so that its cause is the timeout."""
        seconds = entry.running_ms / 1000
        message = f"still running after {seconds:.0f} s, its timeout; its engine {entry.record.owner} is ended"
        error = ErrorInfo(message=message, type="Timeout", cause=Cause.TIMEOUT)
        done = self.broker.expire(entry.queue, entry.task_id, entry.record.attempt, error)
        if done is Expired.EXPIRED:
            self.post(Overdue(entry.record.owner, entry.task_id))

    def _mark(self, *, up: bool, why: str = "") -> None:
        if up and not self.up:
            log.info("redis is back")
        elif self.up and not up:
            log.warning("redis is away; engines keep running", why=why)
        self.up = up
        if up:
            self._answered_at = time.monotonic()


def _state_of(report: Report) -> tuple[object, ...]:
    """What is worth a beat of its own when it changes: states, but not the processor load."""
    return (report.state, *((engine.engine_id, engine.state, engine.info.get("why")) for engine in report.engines))


def _tasks_of(report: Report) -> list[object]:
    """What is worth a beat within a second when it changes: running tasks and their progress."""
    return [engine.info.get("tasks") for engine in report.engines]

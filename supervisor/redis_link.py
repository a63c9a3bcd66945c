"""The supervisor's link to Redis: a thread of its own, so that a slow or absent Redis delays no signal and no restart.

It beats for the node, reclaims dead engines' tasks, polls for tasks past their deadline and receives commands. Work
that can't be done now is kept and done in order when Redis is back.
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

POLL_EVERY = 1.0  # for overdue tasks and commands; as often as it beats, if that is oftener
RETRY_EVERY = 0.5
ASKED_S = 10.0
OVERDUE_MS = 2500
"""Past its deadline in Redis, which counts from the claim: a prefetched task may have started a second later (see
docs/adr/0024-prefetch.md), and one that heeds its cancellation has stopped by then, so that its engine may live."""
MAIN_LOOP_DEAD_AFTER = 30.0


@dataclass(frozen=True, slots=True)
class Report:
    """What the next beat says."""

    state: NodeState
    engines: tuple[EngineBeat, ...]
    info: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReclaimWork:
    """Reclaim everything that this engine holds; with `forget`, its name goes as well."""

    engine_id: str
    queues: tuple[str, ...]
    cause: Cause
    error: ErrorInfo
    named: str | None = None  # the task to blame, if there is evidence
    forget: bool = True


@dataclass(frozen=True, slots=True)
class LogLines:
    """For those who follow a slot's log, or for the one who asked this question."""

    slot: str
    lines: list[Line]
    request_id: str = ""


class Link:
    """`post` hands a message to the main loop; it must be safe to call from this thread."""

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
        self.after = after  # the last command that was heard
        self.asked = f"{int((time.time() - ASKED_S) * 1000)}-0"  # the same for questions; an old one is not waited for
        self.node = node
        self.post = post
        self.heartbeat_s = heartbeat_s
        self.max_deliveries = max_deliveries
        self.max_losses = max_losses
        self.up = True
        self.alive_at = time.monotonic()  # when the main loop last came by
        self._report: Report | None = None
        self._fresh = self._news = False
        self._jobs: deque[ReclaimWork | Reply | LogLines] = deque()
        self._gone: deque[str] = deque(maxlen=1000)
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="redis", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def tell(self, report: Report) -> None:
        """The state of things; a change goes out at once, the same again with the next beat."""
        if self._report is None or _essence(report) != _essence(self._report):
            self._fresh = True
            self._wake.set()
        elif _work(report) != _work(self._report):
            self._news = True  # with the next poll, not at once: short tasks come by the thousand
        self._report = report

    def send(self, job: ReclaimWork | Reply | LogLines) -> None:
        """Done in order, once Redis is there."""
        self._jobs.append(job)
        self._wake.set()

    @property
    def report(self) -> Report | None:
        """The last one; for /metrics."""
        return self._report

    def problem(self) -> str:
        """Why this supervisor is not well; empty if it is. Redis away is no reason: a restart would not help."""
        silence = time.monotonic() - self.alive_at
        if silence > MAIN_LOOP_DEAD_AFTER:
            return f"the main loop stands still for {silence:.0f} s"
        return ""

    def close(self, timeout: float) -> None:
        """Does what is left to do, for as long as this, and takes the node off the list."""
        self._closing = True
        self._wake.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        next_beat = next_poll = 0.0
        while not (self._closing and not self._jobs):
            now = time.monotonic()
            try:
                self._work_off()
                if (self._fresh or now >= next_beat) and self._beat(now):
                    next_beat = now + self.heartbeat_s
                if now >= next_poll and not self._closing:
                    next_poll = now + min(POLL_EVERY, self.heartbeat_s)
                    self._fresh = self._fresh or self._news
                    self._hear_commands()
                    self._find_overdue()
                self._mark(up=True)
                self._sleep(min(next_beat, next_poll) - time.monotonic())
            except BrokerError as error:
                self._mark(up=False, why=str(error))
                self._sleep(RETRY_EVERY, patient=True)
            except Exception:
                # A node that stops beating for a bug of ours would look dead: say it loudly and go on.
                log.exception("the link to redis failed")
                self._sleep(RETRY_EVERY, patient=True)
        with contextlib.suppress(BrokerError):
            engines = [engine.engine_id for engine in self._last_engines()]
            self.broker.registry.forget(engines, [self.node], with_commands=False)

    def _last_engines(self) -> tuple[EngineBeat, ...]:
        return self._report.engines if self._report else ()

    def _sleep(self, seconds: float, *, patient: bool = False) -> None:
        if patient and not self._closing:
            time.sleep(seconds)  # a wake-up would only make us retry faster
        elif seconds > 0:
            self._wake.wait(seconds)
        self._wake.clear()

    def _work_off(self) -> None:
        while self._jobs:
            try:
                self._do(self._jobs[0])
            except (Invalid, WrongKeyType) as error:
                # It will not be accepted, and nothing behind it may wait. The judge reclaims what an engine that
                # doesn't beat any more still holds.
                log.error("could not be sent", what=type(self._jobs[0]).__name__, why=str(error))
            except BrokerError:
                if isinstance(self._jobs[0], LogLines):
                    self._jobs.popleft()  # their readers are gone by then, and the dead engines' tasks wait behind them
                raise
            self._jobs.popleft()  # only now: what an outage interrupted is done again, and can be

    def _do(self, job: ReclaimWork | Reply | LogLines) -> None:
        match job:
            case ReclaimWork():
                self._reclaim(job)
            case LogLines():
                self.logs.write(job.slot, job.lines, job.request_id)
            case Reply():
                self.channel.reply(job)

    def _reclaim(self, job: ReclaimWork) -> None:
        reclaimed = self.broker.reclaim(
            job.engine_id,
            job.queues,
            job.cause,
            named=job.named,
            error=job.error,
            max_deliveries=self.max_deliveries,
            max_losses=self.max_losses,
        )
        if job.forget:
            self._gone.append(job.engine_id)
            self.broker.registry.forget([job.engine_id])
        self.post(WorkReclaimed(job.engine_id, reclaimed))

    def _hear_commands(self) -> None:
        for command in self.channel.receive(self.after, asked=self.asked):
            if command.asks:
                self.asked = command.entry_id
            else:
                self.after = command.entry_id
            self.post(Commanded(command))

    def _beat(self, now: float) -> bool:
        """Not if the main loop stands still: then the node must look as dead as it is."""
        if self._report is None or now - self.alive_at > MAIN_LOOP_DEAD_AFTER:
            return False
        self._fresh = self._news = False
        report = self._report
        # The report may be older than a reclaim: a forgotten engine must not be beaten back to life.
        engines = [engine for engine in report.engines if engine.engine_id not in self._gone]
        self.broker.registry.beat_node(self.node, report.state, engines, report.info)
        return True

    def _find_overdue(self) -> None:
        report = self._report
        if report is None:
            return
        mine = {engine.engine_id for engine in report.engines}
        for queue in sorted({queue for engine in report.engines for queue in engine.queues}):
            with contextlib.suppress(WrongKeyType):  # the scanner says so; the other queues go on
                page = self.broker.pending(queue, order=PendingOrder.DEADLINE, overdue_by_ms=OVERDUE_MS, limit=200)
                for entry in page.entries:
                    if entry.record.owner in mine:
                        self._expire(entry)

    def _expire(self, entry: PendingEntry) -> None:
        """Settled before the engine is killed: so it is a timeout, whatever the engine's end looks like."""
        seconds = entry.running_ms / 1000
        message = f"still running after {seconds:.0f} s, its timeout; its engine {entry.record.owner} is ended"
        error = ErrorInfo(message=message, type="Timeout", cause=Cause.TIMEOUT)
        done = self.broker.expire(entry.queue, entry.task_id, entry.record.attempt, error)
        if done is Expired.EXPIRED:
            self.post(Overdue(entry.record.owner, entry.task_id))

    def _mark(self, *, up: bool, why: str = "") -> None:
        if up != self.up:
            log.warning("redis is back" if up else "redis is away; engines keep running", why=why)
        self.up = up


def _essence(report: Report) -> tuple[object, ...]:
    """What is worth a beat of its own when it changes; processor load is not."""
    return (report.state, *((engine.engine_id, engine.state, engine.info.get("why")) for engine in report.engines))


def _work(report: Report) -> list[object]:
    """What is worth telling within a second: which tasks are in hand, and how far they are."""
    return [engine.info.get("tasks") for engine in report.engines]

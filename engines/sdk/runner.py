"""Runs an engine: claims tasks, has them run, settles them. Whose turn it is speaks to the broker and decides.

Tasks run in worker threads, a waiter thread sleeps at Redis; both put messages into the inbox, and the runner's own
thread takes its turn when one comes or something is due. Only the worker of an engine that runs one task at a time
takes a turn itself. When busy, one call settles what is finished and claims what comes next; see ahead.py for how many.
While Redis is away, results are kept and settled on its return.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from queue import Empty, SimpleQueue
from typing import Any

from dalston_queue.broker import Broker, Consumer, Delivery
from dalston_queue.broker.errors import Fenced, Unavailable
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol import messages
from dalston_queue.broker.protocol.types import EngineState, Settled

from .ahead import Ahead
from .engine import Engine, is_async
from .happenings import Broken, Finished, Happening, Pause, Resume, Stop, Woken
from .identity import Identity
from .manifest import Manifest
from .notify import notify
from .outcomes import Cancelled, Done, Failed, Outcome, Retry
from .report import TaskReport, in_hand
from .run import Run
from .settlement import timed_out
from .task import Task
from .waiter import Waiter
from .watchdog import Watchdog
from .workers import make_workers

log = logging.getLogger("engine")

BEAT_EVERY = 0.4  # seconds, while tasks run: the longest that a request to cancel stays unseen
OVERTIME = 5.0  # seconds past its deadline that a task has to see that it is cancelled
RECONNECT_EVERY = 0.5
RECOVER_EVERY = 30.0  # an idle engine looks for the work of owners that were judged dead
SAFETY_CLAIM_EVERY = 1.0  # a wake-up may have gone to an engine that is busy by now: an idle one asks for itself


class Runner:
    """One engine process at work."""

    def __init__(self, engine: Engine, manifest: Manifest, broker: Broker, identity: Identity) -> None:
        self.engine = engine
        self.manifest = manifest
        self.broker = broker
        self.identity = identity
        self.inbox: SimpleQueue[Happening] = SimpleQueue()
        # Whoever has it may touch everything below and call the consumer. Only the waiter sleeps there without it.
        self.turn = threading.Lock()
        one_worker = manifest.capacity == 1 and not is_async(engine)
        self.ahead = Ahead(manifest.capacity, enabled=one_worker)
        self.consumer = Consumer(
            broker,
            identity.engine_id,
            manifest.queues,
            manifest.capabilities,
            self.ahead.most,
            stale=identity.stale,
        )
        self.workers = make_workers(engine, manifest.capacity, self._settle_here if one_worker else self._report)
        self.waiter = Waiter(self.consumer, lambda found, claimed: self.inbox.put(Woken(found, claimed)))
        self.watchdog = Watchdog(manifest.watchdog)
        self.told = TaskReport(enabled=identity.supervised)
        self.breaker = identity.breaker(enabled=manifest.breaker)
        self.runs: dict[int, Run] = {}
        self.unsettled: list[tuple[Delivery, messages.Outcome]] = []
        self.unwanted: list[Delivery] = []  # claimed, and not to be run here
        self.dirty: dict[str, Task] = {}  # progress to report
        self.announced = False
        self.hungry = True
        self.paused = False
        self.stop_at: float | None = None
        self.connected = True
        self.next_beat = self.next_heartbeat = self.next_claim = self.next_try = 0.0
        self.next_recovery = time.monotonic() + RECOVER_EVERY
        self.sleeps_until = 0.0  # the runner's thread, if nothing comes

    # --- the loop -----------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Until stopped. Returns the exit code."""
        self._open()
        self.watchdog.start(lambda: [run.task for run in list(self.runs.values())])
        self.announced = self._announce()
        while not self._may_leave(time.monotonic()):
            happened = self._receive()
            with self.turn:
                for message in happened:
                    self._handle(message)
                now = time.monotonic()
                self.watchdog.runner_at = now
                self.announced = self.announced or self._announce()
                self._notice_orphanhood(now)
                self._overdue(now)
                self._serve_waiting(now)
                try:
                    self._act(now)
                except Fenced:
                    self._fenced()
        return self._leave()

    def _act(self, now: float) -> None:
        """Tell Redis and the supervisor what there is to tell. Raises Fenced."""
        if now >= self.next_try:
            try:
                self._speak(now)
            except Unavailable as error:
                self._lost_connection(error, now)
        self.told.tell((run.task for run in self.runs.values()), now)

    def _report(self, task: Task, outcome: Outcome) -> None:
        """A worker's last step with a task, in its thread."""
        self.inbox.put(Finished(task, outcome))

    def _settle_here(self, task: Task, outcome: Outcome) -> None:
        """The same for the only worker: it takes a turn itself, and most often finds its next task by it. Handing over
        to the runner's thread and back would wake two threads for each task."""
        ended_at = time.monotonic()  # waiting for the turn is not the task's time
        with self.turn:
            if self.stop_at is not None:  # the runner's thread waits for this
                self._report(task, outcome)
                return
            try:
                self._finished(task, outcome, ended_at)
                now = time.monotonic()
                self._serve_waiting(now)
                if not self.runs:  # else it is told with the last of its batch, or by the runner's thread in good time
                    self._act(now)
            except Fenced:
                self.inbox.put(Woken(found=True, claimed=None))  # the runner's thread hears it with its own call
            except BaseException as error:  # noqa: BLE001 (an engine without its worker would be deaf)
                self.inbox.put(Broken(error))
            else:
                if self._next_moment() < self.sleeps_until:
                    self.inbox.put(Woken(found=False, claimed=None))

    def _announce(self) -> bool:
        """Until it has arrived: without it we would count as loading, and be ended for it."""
        return notify("READY=1", "STATUS=ready", "X_DALSTON_SDK=1") or "NOTIFY_SOCKET" not in os.environ

    def _notice_orphanhood(self, now: float) -> None:
        """Without its supervisor nobody beats for it: it would take work only to lose it. (Where there is setpriv,
        the kernel is faster than this.)"""
        if self.stop_at is None and self.identity.orphaned():
            log.error("the supervisor is gone: handing everything back")
            self.stop_at = now

    def _receive(self) -> list[Happening]:
        """Sleeps until something happens or is due, then takes everything that has happened."""
        with self.turn:
            self.sleeps_until = self._next_moment()
        happened: list[Happening] = []
        with contextlib.suppress(Empty):
            happened.append(self.inbox.get(timeout=max(0.0, self.sleeps_until - time.monotonic())))
            while True:
                happened.append(self.inbox.get_nowait())
        return happened

    def _handle(self, message: Happening) -> None:
        now = time.monotonic()
        match message:
            case Finished(task, outcome):
                self._finished(task, outcome, now)
            case Woken(found, None):
                self.hungry = self.hungry or found or now >= self.next_claim
            case Woken(_, claimed):
                self._woken_with(claimed or [], now)
            case Stop():
                self.stop_at = now if self.stop_at is not None else now + self.manifest.stop_grace
                notify("STOPPING=1", f"STATUS=draining, {len(self.runs)} tasks left")
            case Pause():
                self.paused = True
            case Resume():
                self.paused, self.hungry = False, True
            case Broken(error):
                raise RuntimeError("a worker's turn went wrong") from error  # not itself: it may be SystemExit(0)

    def _woken_with(self, claimed: list[Delivery], now: float) -> None:
        # after a broken call a beat may have told us of it before: it may be in hand, or done by now
        held = self.consumer.held
        claimed = [each for each in claimed if each in held and not self._knows(each)]
        free = self._free(now)
        for each in claimed[:free]:
            self._start(each)
        self.unwanted += claimed[free:]  # paused or stopping since the waiter went to sleep
        self.next_claim = now + SAFETY_CLAIM_EVERY
        self.hungry = self.hungry or bool(claimed)

    def _speak(self, now: float) -> None:
        """Everything that goes to Redis, in its order: say what we hold, settle and claim, beat."""
        if self.unwanted:
            self.consumer.release(self.unwanted)
            self.unwanted = []
        if not self.connected or (self.runs and now >= self.next_beat):
            self._beat(now)
        free = self._free(now)
        if self.unsettled or (free and self.hungry):
            self._exchange(free, now)
            free = self._free(now)
        if free and not self.hungry and not self.waiter.armed:
            self.waiter.arm(free)  # at once: until the next message, nothing else would wake us
        if not self.runs and now >= self.next_recovery:
            self.next_recovery = now + RECOVER_EVERY
            self.hungry = self.consumer.recover() > 0 or self.hungry
        if not self.identity.supervised and now >= self.next_heartbeat:
            self.next_heartbeat = now + self.identity.heartbeat_s
            self.broker.registry.beat_engine(self._description(), self.identity.node_id)

    # --- with the broker ----------------------------------------------------------------------------------------------

    def _open(self) -> None:
        while True:
            try:
                self.consumer.open()
                self.consumer.recover()
                return
            except Unavailable as error:
                log.warning("Redis is not there yet: %s", error)
                self.watchdog.runner_at = time.monotonic()
                with contextlib.suppress(Empty):
                    self._handle(self.inbox.get(timeout=RECONNECT_EVERY))
                if self.stop_at is not None:
                    raise SystemExit(0) from None  # it holds nothing: there is nobody to tell

    def _exchange(self, free: int, now: float) -> None:
        sent = list(self.unsettled)
        answer = self.consumer.exchange(sent, free)
        del self.unsettled[: len(sent)]
        for (claimed, _), settled in zip(sent, answer.settled, strict=True):
            if settled is Settled.LOST:
                log.warning("task %s: result refused, it was given to another engine", claimed.message.task_id)
        done = {id(claimed) for claimed, _ in sent}
        for claimed in answer.claimed:
            # After a broken call the broker may tell again what a beat has told us, and what is done by now.
            if id(claimed) not in done:
                self._start(claimed)
        self.next_claim = now + SAFETY_CLAIM_EVERY
        # A full answer may not be all there was; a short one was, and the next task will wake us.
        self.hungry = len(answer.claimed) == free and free > 0

    def _beat(self, now: float) -> None:
        dirty, self.dirty = self.dirty, {}
        progress = {task_id: {"fraction": task.fraction, "message": task.message} for task_id, task in dirty.items()}
        change = self.consumer.beat(progress)
        again = change.given_again
        if not self.connected:
            log.warning("Redis is back")
            self.connected = self.hungry = True
            again = self.consumer.held  # a call that broke off half-way may have claimed some without telling us
        self.next_beat = now + BEAT_EVERY
        for claimed in change.cancelled:
            self._cancel(claimed, lost=False)
        for claimed in change.lost:
            self._cancel(claimed, lost=True)
        for claimed in again:
            self._start(claimed)

    def _lost_connection(self, error: Unavailable, now: float) -> None:
        if self.connected:
            log.warning("Redis is away, the work goes on: %s", error)
        self.connected = False
        self.next_try = now + RECONNECT_EVERY

    def _fenced(self) -> None:
        """We were taken for dead and our tasks given to others. What still runs here doesn't count any more."""
        log.warning("fenced: this engine was taken for dead; its %d tasks are dropped", len(self.runs))
        for run in self.runs.values():
            run.lost = True
            self.workers.cancel(run.task)
        self.unsettled.clear()
        self.unwanted.clear()
        self.ahead.give_up()
        self.dirty.clear()
        self._open()
        self.hungry = True

    # --- tasks --------------------------------------------------------------------------------------------------------

    def _start(self, claimed: Delivery) -> None:
        """Once, however often we are told of it; now, or when its turn comes."""
        if self._knows(claimed):
            return
        if len(self.runs) < self.manifest.capacity:
            self._begin(claimed)
        else:
            self.ahead.keep(claimed, time.monotonic())

    def _knows(self, claimed: Delivery) -> bool:
        """It runs, waits here, has ended or goes back."""
        return (
            any(run.claimed is claimed for run in self.runs.values())
            or any(ended is claimed for ended, _ in self.unsettled)
            or claimed in self.ahead.waiting
            or claimed in self.unwanted
        )

    def _serve_waiting(self, now: float) -> None:
        """Starts what waits here, or gives it up: another engine may be idle."""
        closed = self.stop_at is not None or self.paused or self.breaker.is_open
        if closed or now >= self.ahead.until:
            self.unwanted += self.ahead.give_up()
        while self.ahead.waiting and len(self.runs) < self.manifest.capacity:
            self._begin(self.ahead.waiting.popleft())

    def _begin(self, claimed: Delivery) -> None:
        run = Run.of(claimed, self.manifest.timeout, self.identity.artifacts, self._progressed)
        self.runs[id(run.task)] = run
        self.workers.start(run.task)
        self.told.changed()

    def _finished(self, task: Task, outcome: Outcome, now: float) -> None:
        run = self.runs.pop(id(task))
        self.told.changed()
        self.dirty.pop(task.id, None)
        if run.lost:
            return
        self.ahead.record(now - run.started, done=isinstance(outcome, Done))
        if isinstance(outcome, Cancelled) and not task.cancelled:
            # Say, an await inside the engine was cancelled: nobody asked for that, so it is a failure like any other.
            outcome = Failed("the engine cancelled the task, though nobody asked for it", "Cancelled", "")
        if not isinstance(outcome, Cancelled):
            was_open = self.breaker.is_open
            self.breaker.record(ok=not isinstance(outcome, Failed | Retry), now=now)
            if self.breaker.is_open != was_open:
                self._tell_health()
        self.unsettled.append((run.claimed, run.settled_as(outcome, self.identity.max_result_bytes)))

    def _progressed(self, task: Task) -> None:
        self.dirty[task.id] = task  # called by workers; a dict assignment is atomic
        self.told.changed()

    def _cancel(self, claimed: Delivery, *, lost: bool) -> None:
        if self.ahead.drop(claimed) and not lost:
            self.unsettled.append((claimed, messages.Cancelled()))
        for run in self.runs.values():
            if run.claimed is claimed:
                run.lost = run.lost or lost
                self.workers.cancel(run.task)

    def _overdue(self, now: float) -> None:
        """At its deadline a task is cancelled. One that goes on takes the process along: a thread can't be ended."""
        for run in self.runs.values():
            if run.ends_at is None or run.lost or now < run.ends_at:
                continue
            if not run.late:
                run.late = True
                self.workers.cancel(run.task)
            elif now >= run.ends_at + OVERTIME:
                self._die_of(run)

    def _die_of(self, run: Run) -> None:
        log.error("task %s ran past its deadline and does not stop: ending this process", run.task.id)
        try:
            self.consumer.exchange([*self.unsettled, (run.claimed, timed_out(run.timeout))], 0)
            self.consumer.release()
        except (Unavailable, Fenced) as error:
            log.error("could not settle it: %s", error)
        os.abort()  # faulthandler writes the stacks: they show where it hung

    # --- what is allowed, and when ------------------------------------------------------------------------------------

    def _free(self, now: float) -> int:
        if self.stop_at is not None or self.paused:
            return 0
        most = self.manifest.capacity if self.runs else self.ahead.allowed
        free = max(0, most - len(self.runs) - len(self.ahead.waiting))
        return self.breaker.admits(free, len(self.runs), now)

    def _next_moment(self) -> float:
        now = time.monotonic()
        moment = min(now + 1.0, self.told.next_moment())
        if self.hungry and self._free(now):
            moment = min(moment, self.next_try)
        if self.unsettled or self.ahead.waiting:
            moment = min(moment, max(self.next_try, self.ahead.until))
        if self.runs:
            moment = min(moment, max(self.next_beat, self.next_try))
        if self.stop_at is not None:
            moment = min(moment, self.stop_at)
        for run in self.runs.values():
            if run.ends_at is not None and not run.late:
                moment = min(moment, run.ends_at)
        return moment

    def _tell_health(self) -> None:
        state = "unhealthy" if self.breaker.is_open else "healthy"
        text = f"{self.breaker.in_a_row} tasks failed in a row: no work for {self.breaker.open_s:.0f} s, then one trial"
        log.warning("circuit breaker: %s", text if self.breaker.is_open else "closed again")
        notify(f"X_DALSTON_HEALTH={state}", f"STATUS={text if self.breaker.is_open else 'ready'}")

    def _description(self) -> EngineBeat:
        state = EngineState.DRAINING if self.stop_at is not None else EngineState.READY
        tasks = in_hand(run.task for run in self.runs.values())
        said: dict[str, Any] = {"version": self.manifest.version, "running": len(self.runs), "tasks": tasks}
        return EngineBeat(
            engine_id=self.identity.engine_id,
            state=EngineState.UNHEALTHY if self.breaker.is_open else state,
            queues=self.manifest.queues,
            capabilities=self.manifest.capabilities,
            capacity=self.manifest.capacity,
            info={**said, "alone": True},
        )

    # --- the end ------------------------------------------------------------------------------------------------------

    def _may_leave(self, now: float) -> bool:
        if self.stop_at is None:
            return False
        return now >= self.stop_at or not (self.runs or self.unsettled)

    def _leave(self) -> int:
        """Settles what is done, hands back what is not, and says goodbye."""
        try:
            if self.unsettled:
                self._exchange(0, time.monotonic())
            self.waiter.stop()
            self.consumer.close()
            if not self.identity.supervised:
                self.broker.registry.forget([self.identity.engine_id])
        except (Unavailable, Fenced) as error:
            log.warning("left without a word to Redis: %s", error)
        if not self.runs:
            self.workers.call(self.engine.close)
        return 0

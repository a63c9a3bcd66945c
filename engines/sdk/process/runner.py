"""The runner: the main thread of an engine, and the only one that claims and settles.

It owns the engine's consumer, which holds one session per queue:

    claim and settle   `_settle_and_claim`: one call sends the results so far and asks for `_claim_limit` tasks
    start              `_hold`: claimed tasks go into the slots (slots.py), where worker threads (workers.py) start them
    renew, cancel      `_renew`
    release            `_release_buffer` for prefetched tasks, `_close` for all that is left at the end
    fenced             `_drop_all`: the engine was judged dead, and other engines have its tasks

Workers, the waiter that sleeps at Redis, and signal handlers only put events into the inbox, where the runner sleeps.
Without a result to settle it claims for free slots only: it prefetches nothing that another idle engine could start.
During an outage of Redis tasks go on, and their results are kept.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from dalston_queue.broker import Broker, Consumer, Delivery
from dalston_queue.broker.errors import Fenced, Unavailable
from dalston_queue.broker.protocol import messages

from .. import logs
from ..engine import Engine
from ..manifest import Manifest
from ..notify import notify
from ..outcomes import Outcome
from ..spans import Spans
from ..task import Task
from .health import Health, serve_health
from .identity import Identity
from .report import BreakerReport, TaskReport, Watchdog, heartbeat
from .settlement import count, settlement, timed_out
from .slots import Slots
from .workers import Waiter, make_workers

log = logging.getLogger("engine")

RENEW_EVERY_S = 0.4  # while tasks are held: the longest that a request to cancel stays unseen
OVERTIME_S = 5.0  # past its deadline, for a task to see that it is cancelled
RECONNECT_EVERY_S = 0.5
RECOVER_EVERY_S = 30.0  # an idle engine reclaims the tasks of engines that were judged dead


@dataclass(slots=True)
class Finished:
    """From a worker: the task has ended."""

    task: Task
    outcome: Outcome


class Woken:
    """From the waiter: a task may be waiting, or a second has passed."""


class Stop:
    """SIGTERM: claim nothing and finish. The second one: release what is not finished."""


class Pause:
    """SIGUSR1: claim nothing until SIGUSR2."""


class Resume:
    """SIGUSR2."""


Event = Finished | Woken | Stop | Pause | Resume


class Runner:
    """One engine process. Other threads touch only its inbox and its slots."""

    def __init__(self, engine: Engine, manifest: Manifest, broker: Broker, identity: Identity) -> None:
        self.engine, self.manifest, self.broker, self.identity = engine, manifest, broker, identity
        self.workspace = identity.workspace()
        self.inbox: SimpleQueue[Event] = SimpleQueue()
        self.slots = Slots(manifest.capacity)
        serves = (manifest.queues, manifest.capabilities, manifest.holds)
        self.consumer = Consumer(broker, identity.engine_id, *serves, stale=identity.stale)
        self.workers = make_workers(engine, self.slots, lambda task, outcome: self.inbox.put(Finished(task, outcome)))
        self.waiter = Waiter(self.consumer, lambda: self.inbox.put(Woken()))
        self.watchdog = Watchdog(manifest.watchdog)
        self.report = TaskReport(enabled=identity.supervised)
        self.health = Health(
            connected=lambda: self.connected,
            runner_at=lambda: self.watchdog.runner_at,
            running=lambda: self.slots.running,
        )
        self.breaker, self.breaker_report = identity.breaker(enabled=manifest.breaker), BreakerReport()
        self.spans = Spans(identity.engine_id)
        self.tasks: dict[Delivery, Task] = {}  # running or prefetched, until its Finished event is handled
        self.unsettled: list[tuple[Delivery, messages.Outcome]] = []  # results for the next call
        self.releasing: list[Delivery] = []  # with the next call
        self.claim_due = True  # tasks may be waiting in Redis
        self.paused = False
        self.stop_at: float | None = None  # when unfinished tasks are released; set by Stop
        self.connected = True
        self.next_renewal = self.next_heartbeat = self.next_try = 0.0
        self.next_recovery = time.monotonic() + RECOVER_EVERY_S

    # --- the loop -----------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Runs until stopped. Returns the exit code."""
        self.consumer.limit_to(self.capabilities)  # known since `load`
        self._open()
        self.watchdog.start(lambda: self.slots.running)
        if self.identity.supervised and self.manifest.probe is not None:
            serve_health(self.identity.engine_id, self.health)
        while not self._is_finished():
            for event in self._receive():
                self._handle(event)
            now = time.monotonic()
            self.watchdog.runner_at = now
            self.report.ready(self.engine.status, self.capabilities)
            if self.stop_at is None and self.identity.orphaned():
                log.error("the supervisor is gone, and with it the heartbeat: releasing all tasks")
                self.stop_at = now
            self._cancel_overdue(now)
            if now >= self.slots.release_at:
                self._release_buffer()
            self.workers.start()
            if now >= self.next_try:
                try:
                    self._call_redis(now)
                except Unavailable as error:
                    if self.connected:
                        log.warning("Redis is away, the work goes on: %s", error)
                    self.connected, self.next_try = False, now + RECONNECT_EVERY_S
                except Fenced:
                    self._drop_all()
            self.report.send(self.slots.running, now)
            self.breaker_report.send(self.breaker, now, self.engine.status)
        return self._close()

    @property
    def capabilities(self) -> tuple[str, ...]:
        return self.manifest.capabilities if self.engine.capabilities is None else self.engine.capabilities

    def _call_redis(self, now: float) -> None:
        """Makes every call that is due: release, renew, settle and claim, reclaim, heartbeat."""
        if self.releasing:
            self.consumer.release(self.releasing)
            self.releasing.clear()
        if not self.connected or (self.tasks and now >= self.next_renewal):
            self._renew(now)
        if self.unsettled or (self.claim_due and self._claim_limit(now)):
            self._settle_and_claim(self._claim_limit(now))
        if not self.claim_due and self._claim_limit(now) and not self.waiter.armed:
            self.waiter.arm()  # now: nothing else wakes us before the next event
        if not self.tasks and now >= self.next_recovery:
            self.next_recovery = now + RECOVER_EVERY_S
            self.claim_due = self.consumer.reclaim() > 0 or self.claim_due
        if not self.identity.supervised and now >= self.next_heartbeat:
            self.next_heartbeat = now + self.identity.heartbeat_s
            stopping = self.stop_at is not None
            able, running = self.capabilities, self.slots.running
            beat = heartbeat(self.identity, self.manifest, able, self.breaker, running, stopping)
            self.broker.registry.beat_engine(beat, self.identity.node_id)

    def _receive(self) -> list[Event]:
        """Sleeps until an event comes or a time has come, then takes all events from the inbox."""
        events: list[Event] = []
        with contextlib.suppress(Empty):
            events.append(self.inbox.get(timeout=max(0.0, self._wake_at() - time.monotonic())))
            while True:
                events.append(self.inbox.get_nowait())
        return events

    def _handle(self, event: Event) -> None:
        match event:
            case Finished(task, outcome):
                self._ended(task, outcome)
            case Woken():
                # Also after a wait without a wake-up: it may have gone to an engine that is busy by now.
                self.claim_due = True
            case Stop():
                now = time.monotonic()
                self.stop_at = now if self.stop_at is not None else now + self.manifest.stop_grace
                notify("STOPPING=1", f"STATUS=draining, {len(self.slots.running)} tasks left")
                self._release_buffer()
            case Pause():
                self.paused = True
                self._release_buffer()
            case Resume():
                self.paused, self.claim_due = False, True

    def _wake_at(self) -> float:
        now = time.monotonic()
        moments = [now + 1.0, self.report.due_at, self.slots.release_at, self.slots.next_deadline]
        if self.unsettled or self.releasing or (self.claim_due and self._claim_limit(now)):
            moments.append(self.next_try)
        if self.tasks:
            moments.append(max(self.next_renewal, self.next_try))
        if self.stop_at is not None:
            moments.append(self.stop_at)
        return min(moments)

    # --- settle, claim, start, renew ----------------------------------------------------------------------------------

    def _claim_limit(self, now: float) -> int:
        """How many tasks to ask for with the next call."""
        if self.stop_at is not None or self.paused:
            return 0
        room = self.slots.room(self.manifest.prefetch if self.unsettled else 0)
        return self.breaker.admits(room, len(self.tasks), now)

    def _settle_and_claim(self, limit: int) -> None:
        sent = list(self.unsettled)
        answer = self.consumer.exchange(sent, limit)
        del self.unsettled[: len(sent)]
        self.spans.settled(sent, answer.settled)
        logs.settled([(*each, code) for each, code in zip(sent, answer.settled, strict=True)], self.identity.engine_id)
        if answer.claimed:
            # After a broken call the broker may answer with deliveries of a renewal that have ended by now.
            ended = {delivery for delivery, _ in sent}
            self._hold([delivery for delivery in answer.claimed if delivery not in ended])
        # After a full answer more may be waiting. After a short one the queue is empty, and its next task wakes us.
        self.claim_due = len(answer.claimed) == limit > 0

    def _hold(self, deliveries: list[Delivery]) -> None:
        """Into the slots, each delivery once, however often Redis answers with it."""
        known = {*self.tasks, *self.releasing, *(delivery for delivery, _ in self.unsettled)}
        new: list[Task] = []
        for delivery in deliveries:
            if delivery not in known:
                limit, progressed = self.manifest.timeout, self.report.progressed
                task = Task.of(delivery, limit, self.workspace, progressed, self.identity.engine_id)
                self.tasks[delivery] = task
                new.append(task)
        logs.claimed(new, self.identity.engine_id)  # before a worker can log anything about them
        for task in new:
            self.slots.put(task)
        if self.stop_at is not None or self.paused:
            self._release_buffer()
        self.workers.start()
        self.report.changed()

    def _ended(self, task: Task, outcome: Outcome) -> None:
        self.tasks.pop(task.delivery, None)
        self.report.ended(task)
        self.spans.ended(task, outcome)
        if task.lost:
            return
        count(self.breaker, outcome, time.monotonic())
        if self.breaker.is_open:
            self._release_buffer()
        result = timed_out(task.timeout) if task.late else settlement(outcome, self.identity.max_result_bytes)
        self.unsettled.append((task.delivery, result))

    def _renew(self, now: float) -> None:
        change = self.consumer.renew_all(self.report.take_progress())
        again = change.missing
        if not self.connected:
            self._mark_connected()
            again = self.consumer.held  # a call whose answer was lost may have claimed some
        self.next_renewal = now + RENEW_EVERY_S
        for delivery in change.cancelled:
            self._cancel(delivery, lost=False)
        for delivery in change.lost:
            self._cancel(delivery, lost=True)
        if again:
            self._hold(again)

    # --- release, cancel, time out ------------------------------------------------------------------------------------

    def _release_buffer(self) -> None:
        """Releases the prefetched tasks, uncounted: this engine won't start them soon, and another may be idle."""
        for task in self.slots.clear():
            del self.tasks[task.delivery]
            self.releasing.append(task.delivery)

    def _cancel(self, delivery: Delivery, *, lost: bool) -> None:
        if task := self.tasks.get(delivery):
            task.lost = task.lost or lost
            if not self.slots.remove(task):
                self.workers.cancel(task)
                return
            del self.tasks[delivery]  # it never started
            if not lost:
                self.unsettled.append((delivery, messages.Cancelled()))

    def _cancel_overdue(self, now: float) -> None:
        """Cancels tasks at their deadline. A task that goes on ends the process: a thread can't be killed."""
        for task in self.slots.overdue(now):
            if not task.late:
                task.late = True
                self.workers.cancel(task)
        for task in self.slots.overdue(now - OVERTIME_S):
            self._abort(task)

    def _abort(self, task: Task) -> None:
        log.error("task %s ran past its deadline and does not stop: ending this process", task.id)
        try:
            self.consumer.exchange([*self.unsettled, (task.delivery, timed_out(task.timeout))], 0)
            self.consumer.release()
        except (Unavailable, Fenced) as error:
            log.error("could not settle it: %s", error)
        os.abort()  # faulthandler writes the stacks: they show where it hung

    def _drop_all(self) -> None:
        """Fenced: this engine was judged dead, and other engines have its tasks. Results from here would be refused."""
        log.warning("fenced: this engine was judged dead; its %d tasks are dropped", len(self.tasks))
        for task in self.slots.clear():
            del self.tasks[task.delivery]
        for task in self.tasks.values():
            task.lost = True
            self.workers.cancel(task)
        self.unsettled.clear()
        self.spans.dropped()
        self.releasing.clear()
        self._open()
        self.claim_due = True

    # --- opening and closing ------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Opens the sessions, however long Redis is away, and reclaims the tasks of dead engines."""
        while True:
            try:
                self.consumer.open()
                self.consumer.reclaim()
                self._mark_connected()
                return
            except Unavailable as error:
                if self.connected:
                    log.warning("Redis is away, and no task can be claimed: %s", error)
                    self.connected = False
                self.watchdog.runner_at = time.monotonic()
                with contextlib.suppress(Empty):
                    self._handle(self.inbox.get(timeout=RECONNECT_EVERY_S))
                if self.stop_at is not None:
                    raise SystemExit(0) from None  # no task is held yet

    def _mark_connected(self) -> None:
        if not self.connected:
            log.info("Redis is back")
            self.connected = self.claim_due = True

    def _is_finished(self) -> bool:
        busy = self.tasks or self.unsettled or self.releasing
        return self.stop_at is not None and not (busy and time.monotonic() < self.stop_at)

    def _close(self) -> int:
        """Settles what has ended, releases the rest, and ends the sessions."""
        try:
            if self.unsettled:
                self._settle_and_claim(0)
            self.waiter.stop()
            self.consumer.close()
            if not self.identity.supervised:
                self.broker.registry.forget([self.identity.engine_id])
        except (Unavailable, Fenced) as error:
            log.warning("sessions not ended, Redis is away: %s", error)
        if not self.slots.running:
            self.workers.call(self.engine.close)
            self.workspace.clean_up()
        return 0

"""The runner: the one loop of an engine. It claims tasks, has them started, settles what ended, and beats.

Its thread alone claims, settles, beats and releases. Workers run the tasks of the slots (slots.py), a waiter sleeps at
Redis, signals come at any time: all of them only put events into the inbox, at which the runner sleeps.

One call settles what has ended, claims what comes next and fills the buffer of prefetched tasks. Without anything to
settle it claims for free slots only: the rest is for other idle engines. While Redis is away, results are kept.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from queue import Empty, SimpleQueue

from dalston_queue.broker import Broker, Consumer, Delivery
from dalston_queue.broker.errors import Fenced, Unavailable
from dalston_queue.broker.protocol import messages
from dalston_queue.broker.protocol.types import Settled

from .engine import Engine
from .events import Event, Finished, Pause, Resume, Stop, Woken
from .identity import Identity
from .manifest import Manifest
from .notify import notify
from .outcomes import Outcome
from .report import TaskReport, Watchdog, heartbeat, notify_health
from .settlement import settlement, timed_out
from .slots import Slots
from .task import Task
from .workers import Waiter, make_workers

log = logging.getLogger("engine")

BEAT_EVERY = 0.4  # seconds, while tasks are held: the longest that a request to cancel stays unseen
OVERTIME_S = 5.0  # past its deadline, for a task to see that it is cancelled
RECONNECT_EVERY = 0.5
RECOVER_EVERY = 30.0  # an idle engine reclaims the work of engines that were judged dead


class Runner:
    """One engine process at work."""

    def __init__(self, engine: Engine, manifest: Manifest, broker: Broker, identity: Identity) -> None:
        self.engine, self.manifest, self.broker, self.identity = engine, manifest, broker, identity
        self.inbox: SimpleQueue[Event] = SimpleQueue()
        self.slots = Slots(manifest.capacity)
        serves = (manifest.queues, manifest.capabilities, manifest.holds)
        self.consumer = Consumer(broker, identity.engine_id, *serves, stale=identity.stale)
        self.workers = make_workers(engine, self.slots, lambda task, outcome: self.inbox.put(Finished(task, outcome)))
        self.waiter = Waiter(self.consumer, lambda: self.inbox.put(Woken()))
        self.watchdog = Watchdog(manifest.watchdog)
        self.report = TaskReport(enabled=identity.supervised)
        self.breaker = identity.breaker(enabled=manifest.breaker)
        self.tasks: dict[Delivery, Task] = {}  # in a slot or in the buffer, until the runner has seen its end
        self.unsettled: list[tuple[Delivery, messages.Outcome]] = []
        self.releasing: list[Delivery] = []
        self.hungry = True  # work may be waiting: claim when there is room
        self.paused = False
        self.stop_at: float | None = None
        self.connected = True
        self.next_beat = self.next_heartbeat = self.next_try = 0.0
        self.next_recovery = time.monotonic() + RECOVER_EVERY

    # --- the loop -----------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Until stopped. Returns the exit code."""
        self._open()
        self.watchdog.start(lambda: self.slots.running)
        while not self._may_leave():
            for event in self._receive():
                self._handle(event)
            now = time.monotonic()
            self.watchdog.runner_at = now
            self.report.ready()
            if self.stop_at is None and self.identity.orphaned():
                log.error("the supervisor is gone, and with it our heartbeat: releasing everything")
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
                    self.connected, self.next_try = False, now + RECONNECT_EVERY
                except Fenced:
                    self._drop_all()
            self.report.send(self.slots.running, now)
        return self._leave()

    def _call_redis(self, now: float) -> None:
        if self.releasing:
            self.consumer.release(self.releasing)
            self.releasing.clear()
        if not self.connected or (self.tasks and now >= self.next_beat):
            self._beat(now)
        if self.unsettled or (self.hungry and self._room(now)):
            self._settle_and_claim(self._room(now))
        if not self.hungry and self._room(now) and not self.waiter.armed:
            self.waiter.arm()  # at once: until the next event, nothing else would wake us
        if not self.tasks and now >= self.next_recovery:
            self.next_recovery = now + RECOVER_EVERY
            self.hungry = self.consumer.recover() > 0 or self.hungry
        if not self.identity.supervised and now >= self.next_heartbeat:
            self.next_heartbeat = now + self.identity.heartbeat_s
            beat = heartbeat(self.identity, self.manifest, self.breaker, self.slots.running, self.stop_at is not None)
            self.broker.registry.beat_engine(beat, self.identity.node_id)

    def _receive(self) -> list[Event]:
        """Sleeps until an event comes or something is due, then takes all events that are there."""
        events: list[Event] = []
        with contextlib.suppress(Empty):
            events.append(self.inbox.get(timeout=max(0.0, self._next_moment() - time.monotonic())))
            while True:
                events.append(self.inbox.get_nowait())
        return events

    def _handle(self, event: Event) -> None:
        match event:
            case Finished(task, outcome):
                self._finished(task, outcome)
            case Woken():
                # Also if nothing came: a wake-up may have gone to an engine that is busy by now.
                self.hungry = True
            case Stop():
                now = time.monotonic()
                self.stop_at = now if self.stop_at is not None else now + self.manifest.stop_grace
                notify("STOPPING=1", f"STATUS=draining, {len(self.slots.running)} tasks left")
                self._release_buffer()
            case Pause():
                self.paused = True
                self._release_buffer()
            case Resume():
                self.paused, self.hungry = False, True

    def _next_moment(self) -> float:
        now = time.monotonic()
        moments = [now + 1.0, self.report.next_moment(), self.slots.release_at, self.slots.next_deadline]
        if self.unsettled or self.releasing or (self.hungry and self._room(now)):
            moments.append(self.next_try)
        if self.tasks:
            moments.append(max(self.next_beat, self.next_try))
        if self.stop_at is not None:
            moments.append(self.stop_at)
        return min(moments)

    # --- claim, start, settle, beat -----------------------------------------------------------------------------------

    def _room(self, now: float) -> int:
        """How many tasks to claim with the next call."""
        if self.stop_at is not None or self.paused:
            return 0
        room = self.slots.room(self.manifest.prefetch if self.unsettled else 0)
        return self.breaker.admits(room, len(self.tasks), now)

    def _settle_and_claim(self, room: int) -> None:
        sent = list(self.unsettled)
        answer = self.consumer.exchange(sent, room)
        del self.unsettled[: len(sent)]
        for (delivery, _), settled in zip(sent, answer.settled, strict=True):
            if settled is Settled.LOST:
                log.warning("task %s: result refused, another engine has the task", delivery.task_id)
        if answer.claimed:
            # After a broken call the broker may give again what a beat gave, and what has ended by now.
            ended = {delivery for delivery, _ in sent}
            self._start([delivery for delivery in answer.claimed if delivery not in ended])
        # A full answer may not be all there was; a short one was, and the next task will wake us.
        self.hungry = len(answer.claimed) == room > 0

    def _start(self, deliveries: list[Delivery]) -> None:
        """Each once, however often it is given: now, or as soon as a slot is free."""
        known = {*self.tasks, *self.releasing, *(delivery for delivery, _ in self.unsettled)}
        for delivery in deliveries:
            if delivery not in known:
                task = Task.of(delivery, self.manifest.timeout, self.identity.artifacts, self.report.progressed)
                self.tasks[delivery] = task
                self.slots.put(task)
        if self.stop_at is not None or self.paused:
            self._release_buffer()
        self.workers.start()
        self.report.changed()

    def _finished(self, task: Task, outcome: Outcome) -> None:
        self.tasks.pop(task.delivery, None)
        self.report.ended(task)
        if task.lost:
            return
        if self.breaker.record(outcome, time.monotonic()):
            notify_health(self.breaker)
        if self.breaker.is_open:
            self._release_buffer()
        result = timed_out(task.timeout) if task.late else settlement(outcome, self.identity.max_result_bytes)
        self.unsettled.append((task.delivery, result))

    def _beat(self, now: float) -> None:
        change = self.consumer.beat(self.report.take_progress())
        again = change.given_again
        if not self.connected:
            log.warning("Redis is back")
            self.connected = self.hungry = True
            again = self.consumer.held  # a call that broke off half-way may have claimed some without an answer
        self.next_beat = now + BEAT_EVERY
        for delivery in change.cancelled:
            self._cancel(delivery, lost=False)
        for delivery in change.lost:
            self._cancel(delivery, lost=True)
        if again:
            self._start(again)

    # --- what ends early ----------------------------------------------------------------------------------------------

    def _release_buffer(self) -> None:
        """Prefetched tasks go back uncounted when this engine won't start them, or not soon: another may be idle."""
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
        """At its deadline a task is cancelled. One that goes on takes the process along: a thread can't be ended."""
        for task in self.slots.overdue(now):
            if not task.late:
                task.late = True
                self.workers.cancel(task)
        for task in self.slots.overdue(now - OVERTIME_S):
            self._die_of(task)

    def _die_of(self, task: Task) -> None:
        log.error("task %s ran past its deadline and does not stop: ending this process", task.id)
        try:
            self.consumer.exchange([*self.unsettled, (task.delivery, timed_out(task.timeout))], 0)
            self.consumer.release()
        except (Unavailable, Fenced) as error:
            log.error("could not settle it: %s", error)
        os.abort()  # faulthandler writes the stacks: they show where it hung

    def _drop_all(self) -> None:
        """Fenced: we were judged dead, and other engines have our tasks. What still runs here doesn't count."""
        log.warning("fenced: this engine was judged dead; its %d tasks are dropped", len(self.tasks))
        for task in self.slots.clear():
            del self.tasks[task.delivery]
        for task in self.tasks.values():
            task.lost = True
            self.workers.cancel(task)
        self.unsettled.clear()
        self.releasing.clear()
        self._open()
        self.hungry = True

    # --- opening and closing ------------------------------------------------------------------------------------------

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
                    raise SystemExit(0) from None  # it holds nothing that would have to be released

    def _may_leave(self) -> bool:
        busy = self.tasks or self.unsettled or self.releasing
        return self.stop_at is not None and not (busy and time.monotonic() < self.stop_at)

    def _leave(self) -> int:
        """Settles what is done, releases what is not, and ends the sessions."""
        try:
            if self.unsettled:
                self._settle_and_claim(0)
            self.waiter.stop()
            self.consumer.close()
            if not self.identity.supervised:
                self.broker.registry.forget([self.identity.engine_id])
        except (Unavailable, Fenced) as error:
            log.warning("left without a word to Redis: %s", error)
        if not self.slots.running:
            self.workers.call(self.engine.close)
        return 0

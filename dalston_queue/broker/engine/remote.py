"""A worker that speaks HTTP: its calls reach any web process, so its whole state is in Redis.

The worker's entry among the engines has the queues that it serves; each call resumes its session in each of them.
Two calls may overlap, so a sequence number only keeps them apart: a call whose number is used up takes the next. A lost
answer is made good by what Redis holds, not by its number: what is pending for the worker and was not named by it is
delivered again. Every call that its sessions accept counts as a beat; a worker that was judged dead has no session any
more, so none of its calls can bring it back to life.

The worker has no supervisor that could drain it, and no process of ours that could count its failures. A request to
drain is a field of its entry, and its calls report it; its circuit breaker is another field, written with its results.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from dalston_queue.broker.connection.shard import pairs
from dalston_queue.broker.engine.breaker import Breaker, BreakerRules
from dalston_queue.broker.engine.consumer import Consumer
from dalston_queue.broker.engine.delivery import Delivery
from dalston_queue.broker.engine.session import Limits, Session
from dalston_queue.broker.engine.waker import Claim, Waker, push_tokens, unused
from dalston_queue.broker.errors import Invalid
from dalston_queue.broker.nodes.registry import BREAKER, DRAIN, EngineBeat
from dalston_queue.broker.nodes.reports import EngineReport, RunningTask, read_report
from dalston_queue.broker.operations.records import read_records
from dalston_queue.broker.protocol.messages import ErrorInfo, Outcome, TaskMessage, encode_error, encode_outcome
from dalston_queue.broker.protocol.record import Record
from dalston_queue.broker.protocol.types import Cause, EngineState, EventKind, RecordState, Settled, Tier

if TYPE_CHECKING:
    from dalston_queue.broker.broker import Broker

log = logging.getLogger(__name__)
NODE = "http"  # where such workers are listed: they have no supervisor
DEFAULT_RULES = BreakerRules()
MAX_SHOWN = 32  # running tasks in a heartbeat, as of an engine
DEAD_KEPT_MS = 3600 * 1000  # a worker that was judged dead stays listed, and gets 409, for an hour at least


class Hold(NamedTuple):
    """A task that the worker names as its own."""

    task_id: str
    attempt: int


class RemoteTask(msgspec.Struct, frozen=True):
    message: TaskMessage
    deadline_ms: int  # by the clock of the Redis server; 0: none
    alone: bool  # a suspect: no other task may run beside it

    @property
    def hold(self) -> Hold:
        return Hold(self.message.task_id, self.message.attempt)

    @property
    def shown(self) -> RunningTask:
        message = self.message
        started_ms = max(0, self.deadline_ms - message.timeout_ms) if self.deadline_ms else 0
        return RunningTask(
            task_id=message.task_id,
            queue=message.queue,
            attempt=message.attempt,
            started_at_ms=started_ms,
            deadline_ms=self.deadline_ms,
        )


class Renewal(msgspec.Struct):
    """What became of the tasks that a worker named, and its tasks that it did not name."""

    held: list[Hold] = []
    cancelled: list[Hold] = []  # still held: to be stopped and settled as cancelled
    lost: list[Hold] = []  # reclaimed, or ended
    missing: list[RemoteTask] = []
    alone: bool = False  # one of them is a suspect
    shown: list[RunningTask] = []  # the held and the missing ones, for its heartbeat

    @property
    def count(self) -> int:
        return len(self.held) + len(self.missing)


class RemoteWorker:
    def __init__(
        self,
        broker: Broker,
        engine: EngineBeat,
        *,
        is_dead: bool = False,
        should_drain: bool = False,
        breaker: Breaker | None = None,
    ) -> None:
        self.engine = engine
        self.breaker = breaker or Breaker()
        self.is_dead = is_dead
        self.should_drain = should_drain  # on an operator's request: it claims no more
        self._broker = broker
        able, limits = frozenset(engine.capabilities), Limits()
        self._by_queue = [
            [Session(shard, queue, engine.engine_id, able, limits) for shard in broker.shards_of(queue)]
            for queue in engine.queues
        ]
        self._sessions = [session for sessions in self._by_queue for session in sessions]
        self._waker = Waker()
        self._poll = 0  # number of its newest poll
        self._is_full = False  # at the last claim

    # coming and going

    @classmethod
    def register(cls, broker: Broker, engine: EngineBeat) -> None:
        """Open its sessions and list it. Raises Invalid, as for any engine."""
        Consumer(broker, engine.engine_id, engine.queues, engine.capabilities, engine.capacity).open()
        broker.registry.beat_engine(engine, NODE)
        # A worker that is killed and started again is a new worker each time: dead ones must not pile up.
        long_ago = time.time() * 1000 - DEAD_KEPT_MS
        dead = [each for each in broker.registry.engines() if each.state is EngineState.DEAD and each.node_id == NODE]
        broker.registry.forget(each.engine_id for each in dead if each.at_ms < long_ago)

    @classmethod
    def find(cls, broker: Broker, worker_id: str, rules: BreakerRules = DEFAULT_RULES) -> RemoteWorker | None:
        """A registered worker, dead or alive. None also if its entry can't be read: then it registers again."""
        home = broker.home
        fields = dict(pairs(home.command("HGETALL", home.keys.engine(worker_id))))
        if fields.get(b"node") != NODE.encode():
            return None
        try:
            report = msgspec.json.decode(fields.get(b"report", b""), type=EngineBeat)
        except msgspec.MsgspecError as error:
            log.warning("the report of %s can't be read: %s", worker_id, error)
            return None
        breaker = Breaker.read(fields.get(BREAKER.encode()), rules)
        return cls(broker, report, is_dead=b"dead" in fields, should_drain=DRAIN.encode() in fields, breaker=breaker)

    def resume(self) -> None:
        """Before any other call. Raises Fenced."""
        for session in self._sessions:
            session.resume()

    def beat(self, **changes: Any) -> None:
        """Report that it is alive; `changes` are fields of EngineBeat."""
        self.engine = msgspec.structs.replace(self.engine, **changes)
        self._broker.registry.beat_engine(self.engine, NODE)

    def beat_named(self, held: Collection[Hold]) -> None:
        """Report that it is alive, and runs what it names."""
        named = {hold.task_id for hold in held}
        tasks = [task for task in self._reported.tasks if task.task_id in named]
        self.beat(info={**self.engine.info, "running": len(held), "tasks": tasks})

    def beat_with(self, state: EngineState, tasks: Sequence[RunningTask]) -> None:
        """Report that it is alive, and what it runs."""
        self.beat(state=state, info={**self.engine.info, "running": len(tasks), "tasks": list(tasks[:MAX_SHOWN])})

    def ended(self, hold: Hold) -> None:
        """Report that it is alive, without this task."""
        tasks = [task for task in self._reported.tasks if task.task_id != hold.task_id]
        running = max(0, self._reported.running - 1)
        self.beat(info={**self.engine.info, "running": running, "tasks": tasks})

    def leave(self) -> list[Hold]:
        """Release its tasks, uncounted, as the first of their queues, and forget the worker. Returns them."""
        released: list[Hold] = []
        for session in self._sessions:
            released += self._release(session, None)
            session.close()
        self._broker.registry.forget([self.engine.engine_id])
        return released

    def drain(self, actor: str, reason: str) -> bool:
        """On an operator's request, until the worker leaves or `undrain`. A poll that claims at this moment may still
        get a task. False: the worker has left."""
        home = self._broker.home
        why = f"{actor} wants it to drain{f': {reason}' if reason else ''}"
        # only if the entry exists: a worker that has left meanwhile must not come back as an entry that stays for ever
        self.should_drain = bool(home.run("put_field", [home.keys.engine(self.engine.engine_id)], [DRAIN, why, 1]))
        return self.should_drain

    def undrain(self) -> None:
        home = self._broker.home
        home.command("HDEL", home.keys.engine(self.engine.engine_id), DRAIN)
        self.should_drain = False

    # tasks

    def renew(
        self, named: Sequence[Hold], *, find_missing: bool, progress: Mapping[Hold, Any] | None = None
    ) -> Renewal:
        """Renew what the worker names. find_missing: also find its tasks that it did not name."""
        renewal = Renewal()
        lost = dict.fromkeys(named)
        for session in self._sessions:
            records = read_records(session.shard, session.queue, list({hold.task_id for hold in lost}))
            mine = [hold for hold in lost if self._runs(records.get(hold.task_id), hold)]
            if not mine and not find_missing:
                continue
            held = [
                (*hold, records[hold.task_id].stream, records[hold.task_id].entry_id, _json((progress or {}).get(hold)))
                for hold in mine
            ]
            codes, missing = session.renew(held, find_missing)
            for hold, code in zip(mine, codes, strict=True):
                if code == b"lost":
                    continue
                del lost[hold]
                renewal.held.append(hold)
                record = records[hold.task_id]
                renewal.shown.append(_shown(hold, session.queue, record))
                renewal.alone = renewal.alone or _is_suspect(session, record.stream)
                if code == b"cancel":
                    renewal.cancelled.append(hold)
            renewal.missing += self._tasks(missing)
        renewal.lost = list(lost)
        renewal.shown += [task.shown for task in renewal.missing]
        renewal.alone = renewal.alone or any(task.alone for task in renewal.missing)
        return renewal

    def claim(self, wanted: int, renewal: Renewal) -> list[RemoteTask]:
        """Up to `wanted`, and no more than its capacity leaves room for; none if it should drain."""
        room = 0 if renewal.alone or self.should_drain else min(wanted, self.engine.capacity - renewal.count)
        room = self.breaker.admits(max(0, room), renewal.count, time.time())
        self._is_full = room <= 0
        tokens = self._waker.take_tokens()
        try:
            claimed, claims = self._claim(room, not renewal.count)
        except BaseException:
            self._waker.keep(tokens)
            raise
        push_tokens(unused(tokens, claims))
        return claimed

    def _claim(self, room: int, alone: bool) -> tuple[list[RemoteTask], list[Claim]]:
        claimed: list[RemoteTask] = []
        claims: list[Claim] = []
        for session in self._in_turn():
            left = room - len(claimed)
            if left <= 0 or any(task.alone for task in claimed):
                break
            answer = session.exchange((), left, alone and not claimed)
            claims.append(Claim(session, left, answer.claimed))
            claimed += self._tasks(answer.claimed)
            for stream, entry_id in answer.unreadable:
                session.dead_letter(stream, entry_id)
        return claimed, claims

    def release(self, tasks: Sequence[RemoteTask]) -> None:
        """Release tasks that were claimed and can't be delivered, uncounted, as the first of their queues."""
        for session in self._sessions:
            self._release(session, {task.hold for task in tasks})

    def settle(self, hold: Hold, outcome: Outcome) -> Settled:
        """LOST: the worker does not hold the task at this attempt. Raises Invalid for `cancelled` without a request."""
        kind, body = encode_outcome(outcome)
        for session in self._sessions:
            record = read_records(session.shard, session.queue, [hold.task_id]).get(hold.task_id)
            if record is None or not self._runs(record, hold):
                continue
            if kind is EventKind.TASK_CANCELLED and not record.cancel:
                raise Invalid(
                    f"no cancel of task {hold.task_id} was requested: settle it as completed, failed or rejected"
                )
            delivery = Delivery.of_record(session, hold.task_id, record)
            return session.exchange([(delivery, kind, body)], 0, alone=False).settled[delivery]
        return Settled.LOST

    def record(self, succeeded: bool) -> bool:
        """Count an outcome for its circuit breaker, in its entry. Of two results at once one may not count: five in a
        row are a sign, not a budget. True if it opened or closed."""
        before = self.breaker.stored()
        changed = self.breaker.record(succeeded, time.time())
        home, after = self._broker.home, self.breaker.stored()
        if after != before:
            home.run("put_field", [home.keys.engine(self.engine.engine_id)], [BREAKER, after, 1])
        return changed

    # waiting for work

    def start_poll(self) -> None:
        """Of overlapping polls only the newest goes on: the worker abandoned the others, or sent them by mistake."""
        home = self._broker.home
        self._poll = secrets.randbits(48)
        # only if the entry exists: see drain()
        home.run("put_field", [home.keys.engine(self.engine.engine_id)], ["poll", self._poll, 1])

    def is_newest_poll(self) -> bool:
        """Also reads whether the worker should drain by now, and whether its breaker is open."""
        home = self._broker.home
        fields = ("poll", DRAIN, BREAKER)
        poll, drain, breaker = home.command("HMGET", home.keys.engine(self.engine.engine_id), *fields)
        self.should_drain = drain is not None
        self.breaker = Breaker.read(breaker, self.breaker.rules)
        return bool(poll == b"%d" % self._poll)

    def wait(self, seconds: float) -> bool:
        """Sleep until a task may be waiting: True. At most a second; then the lanes are read again."""
        if self.should_drain or self._is_full:  # it would take the wake-up token of an engine with room
            time.sleep(min(seconds, 1.0))
            return False
        if self._waker.wait(self._sessions, min(seconds, 1.0)):
            return True
        for session in self._sessions:
            session.refresh_lanes()
        return False

    def wake_another(self) -> None:
        """Push the tokens that woke this poll, which claims no more."""
        push_tokens(self._waker.take_tokens())

    def close(self) -> None:
        self._waker.close()
        self.wake_another()

    # inside

    @property
    def _reported(self) -> EngineReport:
        """Its heartbeat before."""
        return read_report(self.engine.info, EngineReport)

    def _release(self, session: Session, only: Collection[Hold] | None) -> list[Hold]:
        _, mine = session.renew((), find_missing=True)
        tasks = [(task.hold, each.stream) for each in mine for task in self._tasks([each])]
        held = [(hold, stream) for hold, stream in tasks if only is None or hold in only]
        if not held:
            return []
        body = encode_error(ErrorInfo(message=f"released by {self.engine.engine_id}", cause=Cause.DRAINED))
        codes = session.release([(*hold, stream) for hold, stream in held], body)
        return [hold for (hold, _), ok in zip(held, codes, strict=True) if ok]

    def _in_turn(self) -> list[Session]:
        """The first queue is a random one for each poll; its shards are in order of priority."""
        start = self._poll % len(self._by_queue)
        return [session for sessions in self._by_queue[start:] + self._by_queue[:start] for session in sessions]

    def _runs(self, record: Record | None, hold: Hold) -> bool:
        return (
            record is not None
            and record.state is RecordState.RUNNING
            and (record.owner, record.attempt) == (self.engine.engine_id, hold.attempt)
        )

    def _tasks(self, deliveries: Sequence[Delivery]) -> list[RemoteTask]:
        """Dead-letters the unreadable ones."""
        tasks = []
        for each in deliveries:
            if reason := each.read_message():
                log.warning(
                    "%s dead-letters entry %s of %s: %s", self.engine.engine_id, each.entry_id, each.stream, reason
                )
                each.session.dead_letter(each.stream, each.entry_id, reason)
            else:
                tasks.append(RemoteTask(each.message, each.deadline_ms, each.tier is Tier.SUSPECT))
        return tasks


def _shown(hold: Hold, queue: str, record: Record) -> RunningTask:
    return RunningTask(
        task_id=hold.task_id,
        queue=queue,
        attempt=hold.attempt,
        started_at_ms=record.claimed_at_ms,
        deadline_ms=record.deadline_ms,
    )


def _is_suspect(session: Session, stream: str) -> bool:
    return session.shard.keys.lane_and_tier(stream)[1] is Tier.SUSPECT


def _json(progress: Any) -> bytes:
    return b"" if progress is None else msgspec.json.encode(progress)

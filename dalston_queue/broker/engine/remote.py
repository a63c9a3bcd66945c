"""A worker in another place, whose calls reach any process of ours. Nothing of it is kept but what is in Redis.

Its entry among the engines says which queues it serves; its session in each of them is taken up anew for every call.
Two calls may overlap, so a sequence number only keeps them apart: a call that finds its number taken goes on with the
next. A lost answer is made good by what Redis holds, not by its number: what is pending for the worker and was not
named by it is given again. Every call that its sessions accept counts as a beat; a worker that was taken for dead has
no session any more, so none of its calls can bring it back to life.

It has no supervisor that could be told to drain it. The wish stands in its entry, and it hears of it in its calls.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from dalston_queue.broker.connection.shard import pairs
from dalston_queue.broker.engine.consumer import Consumer
from dalston_queue.broker.engine.given import Given, given_of
from dalston_queue.broker.engine.session import Limits, Session
from dalston_queue.broker.engine.waker import Looked, Waker, give_back, unused
from dalston_queue.broker.errors import Invalid
from dalston_queue.broker.nodes.registry import DRAIN, EngineBeat
from dalston_queue.broker.operations.records import read_records
from dalston_queue.broker.protocol.messages import ErrorInfo, Outcome, TaskMessage, encode_error, encode_outcome
from dalston_queue.broker.protocol.record import Record
from dalston_queue.broker.protocol.types import Cause, EngineState, EventKind, RecordState, Settled, Tier

if TYPE_CHECKING:
    from dalston_queue.broker.broker import Broker

log = logging.getLogger(__name__)
NODE = "http"  # where such workers are listed: they have no supervisor
DEAD_KEPT_MS = 3600 * 1000  # a worker that was taken for dead stays listed, and gets 409, for an hour at least


class Hold(NamedTuple):
    """A task that the worker says it has."""

    task_id: str
    attempt: int


class RemoteTask(msgspec.Struct, frozen=True):
    message: TaskMessage
    deadline_ms: int  # by the clock of the Redis server; 0: none
    alone: bool  # a suspect: nothing else may run beside it

    @property
    def hold(self) -> Hold:
        return Hold(self.message.task_id, self.message.attempt)


class Look(msgspec.Struct):
    """What became of the tasks that a worker named, and which it did not name though it has them."""

    held: list[Hold] = []
    cancelled: list[Hold] = []  # still its own: to be stopped and settled as cancelled
    lost: list[Hold] = []  # taken back, or over
    again: list[RemoteTask] = []
    alone: bool = False  # one of them is a suspect

    @property
    def count(self) -> int:
        return len(self.held) + len(self.again)


class RemoteWorker:
    def __init__(
        self, broker: Broker, engine: EngineBeat, *, is_dead: bool = False, should_drain: bool = False
    ) -> None:
        self.engine = engine
        self.is_dead = is_dead
        self.should_drain = should_drain  # an operator wants it to: it is given nothing new
        self._broker = broker
        able, limits = frozenset(engine.capabilities), Limits()
        self._by_queue = [
            [Session(shard, queue, engine.engine_id, able, limits) for shard in broker.shards_of(queue)]
            for queue in engine.queues
        ]
        self._sessions = [session for sessions in self._by_queue for session in sessions]
        self._waker = Waker()
        self._turn = 0
        self._is_full = False  # with what it had at the last look

    # coming and going

    @classmethod
    def register(cls, broker: Broker, engine: EngineBeat) -> None:
        """Open its sessions and list it. Raises Invalid for names and numbers that no engine may have either."""
        Consumer(broker, engine.engine_id, engine.queues, engine.capabilities, engine.capacity).open()
        broker.registry.beat_engine(engine, NODE)
        # One that is killed and started again is another worker each time: those before it must not pile up.
        long_ago = time.time() * 1000 - DEAD_KEPT_MS
        dead = [each for each in broker.registry.engines() if each.state is EngineState.DEAD and each.node_id == NODE]
        broker.registry.forget(each.engine_id for each in dead if each.at_ms < long_ago)

    @classmethod
    def find(cls, broker: Broker, worker_id: str) -> RemoteWorker | None:
        """One that has registered; dead or alive. None also if its entry can't be read: then it registers again."""
        home = broker.home
        fields = dict(pairs(home.command("HGETALL", home.keys.engine(worker_id))))
        if fields.get(b"node") != NODE.encode():
            return None
        try:
            said = msgspec.json.decode(fields.get(b"report", b""), type=EngineBeat)
        except msgspec.MsgspecError as error:
            log.warning("the report of %s can't be read: %s", worker_id, error)
            return None
        return cls(broker, said, is_dead=b"dead" in fields, should_drain=DRAIN.encode() in fields)

    def resume(self) -> None:
        """First of all calls. Raises Fenced."""
        for session in self._sessions:
            session.resume()

    def beat(self, **said: Any) -> None:
        """It is alive; `said` are fields of EngineBeat that changed."""
        self.engine = msgspec.structs.replace(self.engine, **said)
        self._broker.registry.beat_engine(self.engine, NODE)

    def leave(self) -> list[Hold]:
        """Hand back what it has, uncounted, to the front of the line, and forget it. Returns what went back."""
        given: list[Hold] = []
        for session in self._sessions:
            given += self._release(session, None)
            session.close()
        self._broker.registry.forget([self.engine.engine_id])
        return given

    def drain(self, actor: str, reason: str) -> bool:
        """An operator's wish, until it leaves or `undrain`. A poll that claims in this moment may still bring a task.
        False: it has left."""
        home = self._broker.home
        why = f"{actor} wants it to drain{f': {reason}' if reason else ''}"
        # only if it is there: one that has left meanwhile must not come back as an entry that nobody forgets
        self.should_drain = bool(home.run("put_field", [home.keys.engine(self.engine.engine_id)], [DRAIN, why, 1]))
        return self.should_drain

    def undrain(self) -> None:
        home = self._broker.home
        home.command("HDEL", home.keys.engine(self.engine.engine_id), DRAIN)
        self.should_drain = False

    # tasks

    def look(self, named: Sequence[Hold], *, everything: bool, progress: Mapping[Hold, Any] | None = None) -> Look:
        """Renew what the worker names. everything: also find what it has and did not name."""
        look = Look()
        missing = dict.fromkeys(named)
        for session in self._sessions:
            records = read_records(session.shard, session.queue, list({hold.task_id for hold in missing}))
            mine = [hold for hold in missing if self._runs(records.get(hold.task_id), hold)]
            if not mine and not everything:
                continue
            said = [
                (*hold, records[hold.task_id].stream, records[hold.task_id].entry_id, _json((progress or {}).get(hold)))
                for hold in mine
            ]
            codes, again = session.beat(said, everything)
            for hold, code in zip(mine, codes, strict=True):
                if code == b"lost":
                    continue
                del missing[hold]
                look.held.append(hold)
                look.alone = look.alone or _is_suspect(session, records[hold.task_id].stream)
                if code == b"cancel":
                    look.cancelled.append(hold)
            look.again += [task for task in (self._task(session, each) for each in again) if task]
        look.lost = list(missing)
        look.alone = look.alone or any(task.alone for task in look.again)
        return look

    def claim(self, wanted: int, look: Look) -> list[RemoteTask]:
        """Up to so many, and no more than its capacity leaves room for. None if it should drain."""
        room = 0 if look.alone or self.should_drain else min(wanted, self.engine.capacity - look.count)
        self._is_full = room <= 0
        tokens = self._waker.take_tokens()
        try:
            taken, looks = self._claim(room, not look.count)
        except BaseException:
            self._waker.keep(tokens)
            raise
        give_back(unused(tokens, looks))
        return taken

    def _claim(self, room: int, alone: bool) -> tuple[list[RemoteTask], list[Looked]]:
        taken: list[RemoteTask] = []
        looks: list[Looked] = []
        for session in self._in_turn():
            left = room - len(taken)
            if left <= 0 or any(task.alone for task in taken):
                break
            answer = session.exchange((), left, alone and not taken)
            looks.append(Looked(session, left, answer.given))
            taken += [task for task in (self._task(session, each) for each in answer.given) if task]
            for stream, entry_id in answer.unreadable:
                session.dead_letter(stream, entry_id)
        return taken, looks

    def release(self, tasks: Sequence[RemoteTask]) -> None:
        """What was claimed and can't be given to it: uncounted, to the front of the line."""
        for session in self._sessions:
            self._release(session, {task.hold for task in tasks})

    def settle(self, hold: Hold, outcome: Outcome) -> Settled:
        """LOST: it is not its own at this attempt (any more). Raises Invalid for `cancelled` without a request."""
        kind, body = encode_outcome(outcome)
        for session in self._sessions:
            record = read_records(session.shard, session.queue, [hold.task_id]).get(hold.task_id)
            if record is None or not self._runs(record, hold):
                continue
            if kind is EventKind.TASK_CANCELLED and not record.cancel:
                raise Invalid(
                    f"nobody asked to stop task {hold.task_id}: say that it completed, failed or was rejected"
                )
            given = given_of(hold.task_id, record)
            return session.exchange([(given, kind, body)], 0, alone=False).settled[given]
        return Settled.LOST

    # waiting for work

    def take_turn(self) -> None:
        """Of overlapping polls the last one counts: the others were given up by the worker, or are a mistake."""
        home = self._broker.home
        self._turn = secrets.randbits(48)
        # only if it is there: one that has left meanwhile must not come back as an entry that nobody forgets
        home.run("put_field", [home.keys.engine(self.engine.engine_id)], ["poll", self._turn, 1])

    def has_turn(self) -> bool:
        """Learns on the way whether it should drain by now."""
        home = self._broker.home
        turn, drain = home.command("HMGET", home.keys.engine(self.engine.engine_id), "poll", DRAIN)
        self.should_drain = drain is not None
        return bool(turn == b"%d" % self._turn)

    def wait(self, seconds: float) -> bool:
        """Until something may be there: True. At most a second, and lanes that came meanwhile are read afterwards."""
        if self.should_drain or self._is_full:  # a token that it takes would be missing to somebody who works
            time.sleep(min(seconds, 1.0))
            return False
        if self._waker.wait(self._sessions, min(seconds, 1.0)):
            return True
        for session in self._sessions:
            session.refresh_lanes()
        return False

    def wake_another(self) -> None:
        """For what it was woken for and won't take."""
        give_back(self._waker.take_tokens())

    def close(self) -> None:
        self._waker.close()
        self.wake_another()

    # inside

    def _release(self, session: Session, only: Collection[Hold] | None) -> list[Hold]:
        _, mine = session.beat((), look=True)
        tasks = [(task.hold, each.stream) for each in mine if (task := self._task(session, each))]
        held = [(hold, stream) for hold, stream in tasks if only is None or hold in only]
        if not held:
            return []
        body = encode_error(ErrorInfo(message=f"{self.engine.engine_id} gave it back", cause=Cause.DRAINED))
        codes = session.release([(*hold, stream) for hold, stream in held], body)
        return [hold for (hold, _), ok in zip(held, codes, strict=True) if ok]

    def _in_turn(self) -> list[Session]:
        """The queue that is asked first is another with each poll, by chance; its shards are in order of priority."""
        start = self._turn % len(self._by_queue)
        return [session for sessions in self._by_queue[start:] + self._by_queue[:start] for session in sessions]

    def _runs(self, record: Record | None, hold: Hold) -> bool:
        return (
            record is not None
            and record.state is RecordState.RUNNING
            and (record.owner, record.attempt) == (self.engine.engine_id, hold.attempt)
        )

    def _task(self, session: Session, given: Given) -> RemoteTask | None:
        message = given.message(session.queue)
        if isinstance(message, str):
            log.warning(
                "%s buries entry %s of %s: %s", self.engine.engine_id, given.entry.decode(), given.stream, message
            )
            session.dead_letter(given.stream, given.entry.decode(), message)
            return None
        return RemoteTask(message, given.deadline_ms, given.tier is Tier.SUSPECT)


def _is_suspect(session: Session, stream: str) -> bool:
    return session.shard.keys.lane_and_tier(stream)[1] is Tier.SUSPECT


def _json(progress: Any) -> bytes:
    return b"" if progress is None else msgspec.json.encode(progress)

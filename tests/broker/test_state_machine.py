"""The real scripts against a small model: several engines, lost replies, deaths, false deaths, zombies, promotions,
cancels and lost streams, in any order that Hypothesis thinks of.

The invariants, checked after every step: no entry is lost, none is owned twice, no settle by a non-owner counts, each
attempt ends at most once, event numbers grow, and the counts are exact.
"""

import os
import secrets
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dalston_queue.broker import Consumer, EventReader, connect
from dalston_queue.broker.claimed import Claimed
from dalston_queue.broker.errors import Fenced, Unavailable
from dalston_queue.broker.link import Link
from dalston_queue.broker.messages import Completed, Event
from dalston_queue.broker.registry import EngineBeat
from dalston_queue.broker.scripts import Script
from dalston_queue.broker.types import Cause, EngineState, Priority, RecordState
from tests.broker.conftest import BUDGETS, clean, message

ENGINES = ("e0", "e1", "e2")
TASKS = tuple(f"t{n}" for n in range(8))
CAPS = ((), ("gpu",))


class DroppingLink(Link):
    """Throws the next reply away after the server has run the script."""

    drop = False

    def call(self, script: Script, packed: bytes) -> Any:
        reply = super().call(script, packed)
        if self.drop:
            self.drop = False
            self.close()
            raise Unavailable("the reply got lost")
        return reply


class Task(msgspec.Struct):
    """What the model believes of a task's latest attempt."""

    attempt: int
    state: str  # waiting, running, ended, removed, lost (its stream was deleted)
    caps: tuple[str, ...]
    owner: str = ""


class Engine:
    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.fenced = False
        (self.session,) = consumer._sessions
        self.session._link = self.link = DroppingLink(self.session.shard, self.session._key)


class BrokerMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.broker = connect(os.environ["REDIS_URL"], prefix=f"machine-{secrets.token_hex(6)}")
        self.home = self.broker.topology.home
        self.tasks: dict[str, Task] = {}
        self.engines: dict[str, Engine] = {}
        self.reader = EventReader(self.broker, "o")
        self.last_seq: dict[str, tuple[int, int]] = {}
        self.ends: dict[tuple[str, int], str] = {}
        self.settled: set[tuple[str, int]] = set()  # accepted by Redis, whether the engine heard of it or not
        for name in ENGINES:
            self.engines[name] = Engine(Consumer(self.broker, name, ["echo"], ["gpu"], capacity=3))
            self.engines[name].consumer.open()

    def teardown(self) -> None:
        if hasattr(self, "broker"):
            clean(self.broker)

    # what happens

    @rule(
        task=st.sampled_from(TASKS),
        caps=st.sampled_from(CAPS),
        priority=st.sampled_from(list(Priority)),
        newer=st.booleans(),
    )
    def append(self, task: str, caps: tuple[str, ...], priority: Priority, newer: bool) -> None:
        known = self.tasks.get(task)
        # attempts only grow: the database never appends again what was removed, or ended and acknowledged
        newer = newer or (known is not None and (known.state == "removed" or (task, known.attempt) in self.ends))
        attempt = 1 if known is None else known.attempt + newer
        if known and not newer:
            caps = known.caps
        (answer,) = self.broker.append(
            [message(task, attempt=attempt, priority=priority, required_capabilities=caps, timeout_ms=60_000)]
        )
        if known is None or known.attempt < attempt:
            assert answer == "added"
        elif known.state in ("waiting", "running"):
            assert answer == "duplicate"
        elif known.state == "lost":
            assert answer == "added", "a record whose entry is gone gets a new entry"
        elif known.state == "ended":
            assert answer == "settled", "the tombstone answers until the event is acknowledged"
        if answer == "added":
            self.tasks[task] = Task(attempt, "waiting", caps)

    @rule(name=st.sampled_from(ENGINES), lose=st.booleans(), n=st.integers(1, 3))
    def exchange(self, name: str, lose: bool, n: int) -> None:
        """Settle the oldest n that are held and claim what there is room for."""
        engine = self.engines[name]
        settling = [(claimed, Completed(claimed.task_id)) for claimed in engine.consumer.held[: n - 1]]
        mine = {c.task_id: self.is_owner(name, c) for c, _ in settling}
        engine.link.drop = lose and not engine.fenced
        try:
            got = engine.consumer.exchange(settling)
        except Unavailable:
            self.learn_what_was_lost(name, mine)
            return
        except Fenced:
            assert engine.fenced
            engine.fenced = False
            engine.consumer.open()
            return
        finally:
            engine.link.drop = False
        assert not engine.fenced or not settling
        for (claimed, _), code in zip(settling, got.settled, strict=True):
            if code == "ok":
                # its own, or told again of what it settled in a call whose reply was lost; a later attempt may be there
                place = (claimed.task_id, claimed.attempt)
                assert mine[claimed.task_id] or place in self.settled
                self.settled.add(place)
                if self.tasks[claimed.task_id].attempt == claimed.attempt:
                    self.tasks[claimed.task_id].state = "ended"
        for claimed in got.claimed:
            self.took(name, claimed)

    @rule(name=st.sampled_from(ENGINES))
    def beat(self, name: str) -> None:
        engine = self.engines[name]
        try:
            beat = engine.consumer.beat()
        except Fenced:
            assert engine.fenced
            engine.fenced = False
            engine.consumer.open()
            return
        assert not engine.fenced
        for claimed in beat.given_again:
            assert self.is_owner(name, claimed)
        for claimed in beat.lost:
            assert not self.is_owner(name, claimed)
        owned = {task for task, t in self.tasks.items() if t.state == "running" and t.owner == name}
        held = {c.task_id for c in engine.consumer.held if self.is_owner(name, c)}
        assert held == owned, "after a beat an engine holds exactly what it owns"

    @rule(name=st.sampled_from(ENGINES))
    def hand_back(self, name: str) -> None:
        engine = self.engines[name]
        before = engine.consumer.held
        try:
            given = engine.consumer.hand_back()
        except Fenced:
            assert engine.fenced
            return
        for claimed in before:
            if claimed.task_id in given:
                assert self.is_owner(name, claimed)
                self.tasks[claimed.task_id].state = "waiting"

    @rule(
        name=st.sampled_from(ENGINES), cause=st.sampled_from([Cause.ENGINE_LOST, Cause.NODE_LOST]), twice=st.booleans()
    )
    def die(self, name: str, cause: Cause, twice: bool) -> None:
        """Judged dead and taken back. The process lives on as a zombie and doesn't know."""
        pulse = self.broker.registry.pulses().get(name)
        judged = pulse.counters if pulse else {"echo": (0,)}
        owned = {task for task, t in self.tasks.items() if t.state == "running" and t.owner == name}
        taken = self.broker.take_back(name, ["echo"], cause, judged=judged, **BUDGETS)
        assert not taken.alive
        assert set(taken.recovered) | set(taken.exhausted) == owned
        if twice:
            again = self.broker.take_back(name, ["echo"], cause, judged=judged, **BUDGETS)
            assert again.moved == 0
        for task in taken.recovered:
            self.tasks[task].state = "waiting"
        for task in taken.exhausted:
            self.tasks[task].state = "ended"
        self.engines[name].fenced = True

    @rule(name=st.sampled_from(ENGINES))
    def die_falsely(self, name: str) -> None:
        """It beats between the verdict and the take-back: nothing may be touched."""
        pulse = self.broker.registry.pulses().get(name)
        if pulse is None:
            return
        self.broker.registry.beat_engine(EngineBeat(engine_id=name, state=EngineState.READY, queues=("echo",)))
        assert self.broker.take_back(name, ["echo"], Cause.NODE_LOST, judged=pulse.counters, **BUDGETS).alive

    @rule(minutes=st.sampled_from([5, 15, 25]))
    def promote(self, minutes: int) -> None:
        for event in self.broker.promote("echo", now_ms=self.home.now_ms() + minutes * 60_000):
            assert self.tasks[event.task_id].state == "waiting"

    @rule(task=st.sampled_from(TASKS))
    def cancel(self, task: str) -> None:
        answer = self.broker.request_cancel("echo", task)
        known = self.tasks.get(task)
        if known is None or known.state == "removed":
            assert answer == "absent"
        elif known.state == "waiting":
            assert answer == "removed"
            known.state = "removed"
        elif known.state == "running":
            assert answer == "flagged"
        elif known.state == "lost":
            # its record is there, its entry is not
            assert answer in ("removed", "flagged")
            if answer == "removed":
                known.state = "removed"

    @rule(task=st.sampled_from(TASKS))
    @precondition(lambda self: len(self.tasks) > 3)
    def lose_a_stream(self, task: str) -> None:
        """A stream is deleted by hand: everything in it is gone, the records stay."""
        record = self.broker.records("echo", [task]).get(task)
        if record is None or not record.stream:
            return
        gone = {
            r_task for r_task, r in self.broker.records("echo", list(self.tasks)).items() if r.stream == record.stream
        }
        self.home.command("DEL", record.stream)
        for name in gone:
            if self.tasks[name].state in ("waiting", "running"):
                self.tasks[name].state = "lost"

    @rule()
    def acknowledge(self) -> None:
        while batch := self.reader.read(block_ms=0):
            for event in batch:
                assert isinstance(event, Event)
                self.check_event(event)
            self.reader.ack(batch)

    # helpers

    def is_owner(self, name: str, claimed: Claimed) -> bool:
        t = self.tasks.get(claimed.task_id)
        return t is not None and t.state == "running" and t.owner == name and t.attempt == claimed.attempt

    def took(self, name: str, claimed: Claimed) -> None:
        t = self.tasks[claimed.task_id]
        assert t.attempt == claimed.attempt
        assert t.state == "waiting" or (t.state == "running" and t.owner == name), f"{claimed} was {t}"
        t.state, t.owner = "running", name

    def learn_what_was_lost(self, name: str, mine: dict[str, bool]) -> None:
        """The server ran the script; only the engine doesn't know. What it did must be possible."""
        records = self.broker.records("echo", list(self.tasks))
        for task, t in self.tasks.items():
            record = records.get(task)
            if record and record.state is RecordState.RUNNING and record.owner == name and t.state == "waiting":
                t.state, t.owner = "running", name
            elif task in mine and mine[task] and record and record.state is RecordState.SETTLED:
                t.state = "ended"
                self.settled.add((task, t.attempt))

    def check_event(self, event: Event) -> None:
        place = (event.attempt, event.seq)
        assert place > self.last_seq.get(event.task_id, (0, 0)), f"{event} after {self.last_seq[event.task_id]}"
        self.last_seq[event.task_id] = place
        if event.kind.ends_attempt:
            key = (event.task_id, event.attempt)
            assert key not in self.ends, f"{event} ends an attempt that ended as {self.ends[key]}"
            self.ends[key] = event.kind

    @invariant()
    def redis_is_as_the_model_says(self) -> None:
        if not hasattr(self, "broker"):
            return
        entries: dict[str, int] = {}
        pending: dict[str, str] = {}
        for lane in self.broker.lanes("echo"):
            for stream in self.home.keys.lane("echo", lane):
                by_id = {}
                for entry_id, fields in self.home.command("XRANGE", stream, "-", "+"):
                    task = dict(zip(fields[::2], fields[1::2], strict=True))[b"t"].decode()
                    by_id[entry_id] = task
                    entries[task] = entries.get(task, 0) + 1
                if by_id:
                    for entry_id, owner, _, _ in self.home.command("XPENDING", stream, "engines", "-", "+", 100):
                        assert by_id[entry_id] not in pending
                        pending[by_id[entry_id]] = owner.decode()
        live = {task for task, t in self.tasks.items() if t.state in ("waiting", "running")}
        assert entries == dict.fromkeys(live, 1), "one live entry per attempt"
        assert pending == {task: t.owner for task, t in self.tasks.items() if t.state == "running"}
        stats = self.broker.snapshot(["echo"]).queues
        if stats:
            assert stats[0].waiting == sum(t.state == "waiting" for t in self.tasks.values())
            assert all(lane.consistent for lane in stats[0].lanes)


SHORT = settings(
    max_examples=25,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
LONG = settings(SHORT, max_examples=1000, stateful_step_count=80, derandomize=False)


def test_a_short_fixed_run() -> None:
    BrokerMachine.TestCase.settings = SHORT
    BrokerMachine.TestCase("runTest").runTest()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_long_random_run() -> None:
    BrokerMachine.TestCase.settings = LONG
    BrokerMachine.TestCase("runTest").runTest()

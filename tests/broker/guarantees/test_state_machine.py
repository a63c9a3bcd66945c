"""The real scripts against a small model: several engines, lost replies, deaths, false deaths, zombies, cancels
and lost streams, in any order that Hypothesis finds. The invariants are in model.py."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from dalston_queue.broker.connection.scripts import load
from dalston_queue.broker.errors import Fenced, Unavailable
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.operations.reclaim import Reclaimed
from dalston_queue.broker.protocol.messages import Completed, Event
from dalston_queue.broker.protocol.types import Cause, EngineState, Priority, Removed, Tier
from tests.broker.conftest import message
from tests.broker.guarantees.model import BUDGETS, CAPACITY, CAPS, ENGINES, OUTCOMES, TASKS, Model, Task

an_engine = st.sampled_from(ENGINES)
a_task = st.sampled_from(TASKS)
maybe = st.booleans()


class BrokerMachine(Model):
    @initialize()
    def start(self) -> None:
        self.begin()
        for task, priority in zip(TASKS[:6], [*Priority] * 2, strict=True):  # else half of the steps find nothing to do
            self.append(task, CAPS[0], priority, newer=False, lose=False)

    @rule(task=a_task, caps=st.sampled_from(CAPS), priority=st.sampled_from(Priority), newer=maybe, lose=maybe)
    def append(self, task: str, caps: tuple[str, ...], priority: Priority, newer: bool, lose: bool) -> None:
        known = self.tasks.get(task)
        # attempts only grow: the database never appends again what ended and is acknowledged
        newer = newer or (known is not None and (task, known.attempt) in self.ends)
        added = Task(1 if known is None else known.attempt + newer, "waiting", caps, Tier(priority))
        if known and not newer:
            added.caps, added.deliveries, added.losses = known.caps, known.deliveries, known.losses
            added.seq = known.seq
        again = known is not None and known.state == "removed" and not newer  # from its row, which knows all its events
        if again and added.deliveries >= 2:
            added.tier = Tier.SUSPECT
        sent = message(
            task,
            attempt=added.attempt,
            priority=priority,
            required_capabilities=added.caps,
            timeout_ms=60_000,
            deliveries=added.deliveries if again else 0,
            losses=added.losses if again else 0,
            seq=added.seq if again else 0,
        )
        expected = "added"
        if known and not newer:
            # lost: a record whose entry is gone gets a new entry; ended: the tombstone answers until it is acknowledged
            expected = {"lost": "added", "removed": "added", "ended": "settled"}.get(known.state, "duplicate")
        before = self.records().get(task)
        try:
            with self.losing("append", lose):
                assert self.broker.append([sent]) == [expected]
        except Unavailable:
            # a call that only learnt which stream it must name has done nothing
            if self.records().get(task) == before:
                return
        if expected == "added":
            self.tasks[task] = added
            self.counters["appended"] += 1

    @rule(
        name=an_engine,
        lose=st.sampled_from(["", "settle_and_claim", "renew"]),
        how=st.tuples(*[st.sampled_from(["", *OUTCOMES])] * CAPACITY),
    )
    def exchange(self, name: str, lose: str, how: tuple[str, ...]) -> None:
        """Settle some that are held and claim what there is room for."""
        engine = self.engines[name]
        repeated = list(engine.unanswered or ())
        sent = {claimed for claimed, _ in repeated}
        held = [claimed for claimed in engine.consumer.held if claimed not in sent]
        fresh = [(claimed, kind) for claimed, kind in zip(held, how, strict=False) if kind]
        settling = repeated + fresh
        keeping = set(held) - {claimed for claimed, _ in fresh}
        alone = any(claimed.tier is Tier.SUSPECT for claimed in keeping)
        asks = bool(settling) or engine.unanswered is not None or (len(keeping) < CAPACITY and not alone)
        try:
            with self.losing(lose or "settle_and_claim", bool(lose)):
                got = engine.consumer.exchange([(claimed, OUTCOMES[kind]) for claimed, kind in settling])
        except Unavailable:
            if engine.fenced:
                engine.unanswered = self.refused(engine, fresh)
            elif engine.unanswered is None:
                engine.unanswered = self.settled(name, fresh)
                self.learn_what_was_claimed(name, CAPACITY - len(keeping))
            return
        except Fenced:
            assert engine.fenced
            self.refused(engine, fresh)
            engine.reopen()
            return
        assert not (engine.fenced and asks), "every call of a zombie is refused"
        codes = {**(engine.unanswered or {}), **self.settled(name, fresh)}
        assert got.settled == [codes[one] for one in settling]
        engine.unanswered = None
        for claimed in got.claimed:
            self.took(name, claimed)

    @rule(name=an_engine)
    def claim(self, name: str) -> None:
        self.exchange(name, "", ("",) * CAPACITY)

    @rule(name=an_engine, lose=maybe)
    def renew(self, name: str, lose: bool) -> None:
        engine = self.engines[name]
        before = engine.consumer.held
        if lose:
            with pytest.raises(Unavailable), self.losing("renew"):
                engine.consumer.renew_all()
        try:
            renewed = engine.consumer.renew_all()
        except Fenced:
            assert engine.fenced
            engine.reopen()
            return
        assert not engine.fenced
        assert all(self.is_owner(name, claimed) for claimed in renewed.missing)
        assert set(renewed.lost) == {claimed for claimed in before if not self.is_owner(name, claimed)}
        mine = [claimed for claimed in before if self.is_owner(name, claimed)]
        assert renewed.cancelled == [claimed for claimed in mine if self.tasks[claimed.task_id].cancel]
        held = Counter(claimed.task_id for claimed in engine.consumer.held)
        assert held == Counter(self.owned(name)), "after a renewal an engine holds exactly what it owns"

    @rule(name=an_engine, lose=maybe)
    def release(self, name: str, lose: bool) -> None:
        engine = self.engines[name]
        mine = [claimed.task_id for claimed in engine.consumer.held if self.is_owner(name, claimed)]
        if lose and engine.consumer.held:
            with pytest.raises(Unavailable), self.losing("release"):
                engine.consumer.release()
        try:
            given = engine.consumer.release()
        except Fenced:
            assert engine.fenced
            engine.unanswered = None
            return
        if engine.fenced:
            return
        assert given == ([] if lose else mine)
        for task in mine:
            t = self.tasks[task]
            self.put_back(t, suspect=t.deliveries >= 2)
            self.counters["released"] += 1

    @rule(
        name=an_engine,
        cause=st.sampled_from([Cause.ENGINE_LOST, Cause.NODE_LOST]),
        named=st.none() | a_task,
        budget=st.sampled_from(BUDGETS),
        lose=maybe,
        afterwards=st.sampled_from(["", "again", "back"]),
    )
    def die(
        self, name: str, cause: Cause, named: str | None, budget: tuple[int, int], lose: bool, afterwards: str
    ) -> None:
        """Judged dead and reclaimed from. The process lives on as a zombie and doesn't know, or its node starts another
        under the same name; the judge may reclaim by its verdict once more."""
        engine = self.engines[name]
        beats = self.seen.registry.beat_counters().get(name)
        judged = beats.counters if beats else {"echo": (0,)}
        deliveries, losses = budget
        recovered, exhausted = self.charge(name, cause, named, budget)

        def reclaim() -> Reclaimed:
            return self.broker.reclaim(
                name, ["echo"], cause, judged=judged, named=named, max_deliveries=deliveries, max_losses=losses
            )

        try:
            with self.losing("reclaim", lose):
                taken = reclaim()
            assert not taken.alive and not taken.lost
            assert (set(taken.recovered), set(taken.exhausted)) == (recovered, exhausted)
        except Unavailable:
            pass
        engine.fenced = True
        if afterwards == "again":
            assert reclaim() == Reclaimed()
        if afterwards == "back":
            engine.reopen()
            self.claim(name)
            assert reclaim() == Reclaimed(alive=True), "the verdict was about another life"

    @rule(name=an_engine)
    def die_falsely(self, name: str) -> None:
        """It beats between the verdict and the reclaim: nothing may be touched."""
        beats = self.seen.registry.beat_counters().get(name)
        if beats is None:
            return
        self.broker.registry.beat_engine(EngineBeat(engine_id=name, state=EngineState.READY, queues=("echo",)))
        taken = self.broker.reclaim(name, ["echo"], judged=beats.counters, max_deliveries=1, max_losses=1)
        assert taken == Reclaimed(alive=True)

    @rule(name=an_engine, call=st.sampled_from(["settle", "renew", "release", "claim"]))
    @precondition(lambda self: any(engine.fenced for engine in self.engines.values()))
    def haunt(self, name: str, call: str) -> None:
        """Every call of a zombie is refused."""
        engine = self.engines[name]
        consumer, held = engine.consumer, engine.consumer.held
        if not engine.fenced or (call == "release" and not held):
            return
        if call == "claim" and len(held) >= CAPACITY:
            return  # it only sleeps
        calls: dict[str, Callable[[], object]] = {
            "settle": lambda: consumer.exchange([(claimed, Completed()) for claimed in held], free=1),
            "renew": consumer.renew_all,
            "release": consumer.release,
            "claim": lambda: consumer.claim(timeout=0.001),
        }
        with pytest.raises(Fenced):
            calls[call]()
        if call in ("settle", "claim"):  # a claim settles nothing, but repeats a call without an answer
            self.refused(engine, [(claimed, "completed") for claimed in held] if call == "settle" else [])
        engine.unanswered = None

    @rule(task=a_task, flag=maybe, lose=maybe, beats=maybe)
    def cancel(self, task: str, flag: bool, lose: bool, beats: bool) -> None:
        t = self.tasks.get(task)
        waits = t is not None and (t.state == "waiting" or (t.state == "lost" and not t.ran))
        runs = t is not None and (t.state == "running" or (t.state == "lost" and t.ran))
        call = self.broker.request_cancel if flag else self.broker.remove
        if lose:
            with pytest.raises(Unavailable), self.losing("cancel"):
                call("echo", task)
        gone = task not in self.records()  # else the lost call only learnt the task's stream
        answer = call("echo", task)
        if waits:
            assert answer is (Removed.ABSENT if gone else Removed.REMOVED)
            self.tasks[task].state = "removed"
            self.counters["removed"] += 1
        elif runs:
            assert answer is (Removed.FLAGGED if flag else Removed.RUNNING)
            self.tasks[task].cancel |= flag
            if beats:
                self.renew(self.tasks[task].owner, lose=False)
        elif t is not None and t.state == "ended" and (task, t.attempt) not in self.ends:
            assert answer is Removed.SETTLED
        else:
            assert answer is Removed.ABSENT

    @rule(task=a_task, priority=st.sampled_from(Priority))
    def change_priority(self, task: str, priority: Priority) -> None:
        """Withdrawn and appended again, at the same attempt."""
        if task in self.tasks and self.tasks[task].state == "waiting":
            self.cancel(task, flag=False, lose=False, beats=False)
            self.append(task, (), priority, newer=False, lose=False)

    @rule(task=a_task)
    @precondition(lambda self: len(self.tasks) > 3)
    def lose_a_stream(self, task: str) -> None:
        """A stream is deleted by hand: everything in it is gone, the records stay."""
        record = self.records().get(task)
        if record is None or not record.stream:
            return
        gone = [name for name, other in self.records().items() if other.stream == record.stream]
        self.home.command("DEL", record.stream)
        for t in (self.tasks[name] for name in gone):
            if t.state in ("waiting", "running"):
                t.state, t.ran = "lost", t.state == "running"

    @rule(lose=st.sampled_from([b"", b"XREADGROUP", load("ack_events").sha.encode()]))
    def acknowledge(self, lose: bytes) -> None:
        self.proxy.lose(lose or None)
        while True:
            try:
                batch = self.reader.read(block_ms=0)
            except Unavailable:
                continue  # what it got is read again
            if not batch:
                break
            for event in batch:
                assert isinstance(event, Event)
                self.check_event(event)
            try:
                assert self.reader.ack(batch) > 0
            except Unavailable:
                assert self.reader.ack(batch) == 0
        self.proxy.lose(None)


SHORT = settings(
    max_examples=40,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
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

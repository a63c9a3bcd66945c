"""The model of the state machine: what it believes of each task, and the invariants that compare it with Redis.

After every step: no entry is lost, none is owned twice, no settle by a non-owner counts, each attempt ends at most
once, event numbers grow, only tasks that may be guilty are charged, and all counts are exact.
"""

import os
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from hypothesis.stateful import RuleBasedStateMachine, invariant

from dalston_queue.broker import Consumer, EventReader, connect
from dalston_queue.broker.connection.scripts import load
from dalston_queue.broker.engine.delivery import Delivery
from dalston_queue.broker.protocol.messages import Cancelled, Completed, ErrorInfo, Event, Failed, Outcome
from dalston_queue.broker.protocol.record import Record
from dalston_queue.broker.protocol.types import Cause, RecordState, Settled, Tier
from dalston_queue.broker.views.pages import PendingOrder
from tests.broker.conftest import clean
from tests.broker.proxy import LossyProxy

ENGINES = ("e0", "e1", "e2")
CAPACITY = 3
TASKS = tuple(f"t{n}" for n in range(8))
CAPS = ((), ("gpu",))
BUDGETS = ((3, 4), (1, 1))  # most deliveries and losses: small, so that some are exhausted
LOST = ("settle_and_claim", "renew", "append", "release", "reclaim", "cancel", "ack_events")
OUTCOMES: dict[str, Outcome] = {
    "completed": Completed("done"),
    "failed": Failed(ErrorInfo(message="no")),
    "cancelled": Cancelled(),
}
Settling = tuple[Delivery, str]  # what ended and how, a name of OUTCOMES


class Task(msgspec.Struct):
    """What the model believes of a task's latest attempt."""

    attempt: int
    state: str  # waiting, running, ended, removed, lost (its stream was deleted)
    caps: tuple[str, ...]
    tier: Tier
    deliveries: int = 0
    losses: int = 0
    owner: str = ""
    entry: str = ""  # while it runs
    cancel: bool = False
    seq: int = 0  # number of its last event
    ran: bool = False  # lost only: it ran when its stream was deleted


class Engine:
    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.fenced = False
        # the settlements of a call whose reply got lost, and how they were judged when it ran: it is repeated with them
        self.unanswered: dict[Settling, Settled] | None = None

    def reopen(self) -> None:
        self.consumer.open()
        self.fenced = False
        self.unanswered = None


class Model(RuleBasedStateMachine):
    def begin(self) -> None:
        url, prefix = os.environ["REDIS_URL"], f"machine-{secrets.token_hex(6)}"
        self.proxy = LossyProxy(url)
        self.broker = connect(self.proxy.url, prefix=prefix)
        self.seen = connect(url, prefix=prefix)  # what is really there
        self.home = self.seen.home
        for name in LOST:
            self.home.client.script_load(load(name).source)  # so that it is its own reply that gets lost
        self.tasks: dict[str, Task] = {}
        self.engines: dict[str, Engine] = {}
        self.reader = EventReader(self.broker, "o")
        self.last_seq: dict[str, tuple[int, int]] = {}
        self.ends: dict[tuple[str, int], str] = {}
        self.counters: Counter[str] = Counter()
        for name in ENGINES:
            self.engines[name] = Engine(Consumer(self.broker, name, ["echo"], ["gpu"], capacity=CAPACITY))
            self.engines[name].consumer.open()

    def teardown(self) -> None:
        if hasattr(self, "broker"):
            clean(self.seen)
            self.broker.close()
            self.proxy.close()

    @contextmanager
    def losing(self, script: str, lose: bool = True) -> Iterator[None]:
        """The reply of the next call of this script gets lost, after the server has run it."""
        self.proxy.lose(load(script).sha.encode() if lose else None)
        try:
            yield
        finally:
            self.proxy.lose(None)

    def records(self) -> dict[str, Record]:
        return self.seen.records("echo", TASKS)

    def owned(self, name: str) -> list[str]:
        return [task for task, t in self.tasks.items() if t.state == "running" and t.owner == name]

    def is_owner(self, name: str, claimed: Delivery) -> bool:
        t = self.tasks[claimed.task_id]
        mine = t.state == "running" and t.owner == name
        return mine and (t.attempt, t.entry) == (claimed.attempt, claimed.entry_id)

    def took(self, name: str, claimed: Delivery) -> None:
        t = self.tasks[claimed.task_id]
        assert (t.attempt, t.deliveries, t.losses) == (claimed.attempt, claimed.deliveries, claimed.losses)
        if t.state == "waiting":
            t.state, t.owner, t.entry = "running", name, claimed.entry_id
        assert self.is_owner(name, claimed), f"{claimed} was {t}"
        assert claimed.tier is t.tier

    def settled(self, name: str, settling: list[Settling]) -> dict[Settling, Settled]:
        """A call with these has run."""
        codes = {}
        for claimed, kind in settling:
            ok = self.is_owner(name, claimed)
            codes[claimed, kind] = Settled.ACCEPTED if ok else Settled.LOST
            self.counters[kind if ok else "refused"] += 1
            if ok:
                self.tasks[claimed.task_id].state = "ended"
        return codes

    def refused(self, engine: Engine, fresh: list[Settling]) -> dict[Settling, Settled]:
        """A call of a zombie has run: the one without an answer, or if there is none, one with these."""
        sent = dict.fromkeys(fresh, Settled.LOST) if engine.unanswered is None else engine.unanswered
        self.counters["refused"] += len(sent)
        return sent

    def learn_what_was_claimed(self, name: str, room: int) -> None:
        """The server ran the script; only the engine doesn't know. What it did must be possible."""
        claimed = 0
        for task, record in self.records().items():
            t = self.tasks[task]
            if record.state is RecordState.RUNNING and record.owner == name and t.state == "waiting":
                assert record.attempt == t.attempt
                t.state, t.owner, t.entry = "running", name, record.entry_id
                claimed += 1
        assert claimed <= room

    def put_back(self, t: Task, suspect: bool) -> None:
        """Waiting again, in the recovered tier. A suspect stays one."""
        tier = Tier.SUSPECT if suspect or t.tier is Tier.SUSPECT else Tier.RECOVERED
        t.state, t.tier, t.cancel = "waiting", tier, False

    def charge(self, name: str, cause: Cause, named: str | None, budget: tuple[int, int]) -> tuple[set[str], set[str]]:
        """The tasks that are recovered, and those that are exhausted. A task that is named or ran alone is charged; if
        the guilty task is not known, all are, to the larger budget."""
        owned = self.owned(name)
        recovered, exhausted = set(), set()
        crashed = cause is Cause.ENGINE_LOST
        for task in owned:
            t = self.tasks[task]
            if crashed and (named == task or (named is None and len(owned) == 1)):
                t.deliveries += 1
            elif not crashed or named is None:
                t.losses += 1
            if t.deliveries >= budget[0] or t.losses >= budget[1]:
                t.state = "ended"
                exhausted.add(task)
            else:
                self.put_back(t, suspect=t.deliveries >= 2 or (crashed and t.losses >= 2))
                recovered.add(task)
        self.counters.update(recovered=len(recovered), exhausted=len(exhausted))
        return recovered, exhausted

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
        for lane in self.seen.lanes("echo"):
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

    @invariant()
    def counts_are_exact(self) -> None:
        if not hasattr(self, "broker"):
            return
        (stats,) = self.seen.snapshot(["echo"]).queues
        states = Counter(t.state for t in self.tasks.values())
        indexed = states["running"] + sum(t.state == "lost" and t.ran for t in self.tasks.values())
        assert stats.waiting == states["waiting"]
        assert stats.running == self.seen.pending("echo", order=PendingOrder.DEADLINE).total == indexed
        assert all(lane.consistent for lane in stats.lanes)
        assert stats.counters == +self.counters

    @invariant()
    def records_are_exact(self) -> None:
        if not hasattr(self, "broker"):
            return
        expected = {}
        for task, t in self.tasks.items():
            if t.state == "removed" or (t.state == "ended" and (task, t.attempt) in self.ends):
                continue
            runs = t.state == "running" or (t.state == "lost" and t.ran)
            state = RecordState.RUNNING if runs else RecordState.SETTLED if t.state == "ended" else RecordState.WAITING
            owner, cancel = (t.owner, int(t.cancel)) if runs else ("", 0)
            expected[task] = (state, t.attempt, t.deliveries, t.losses, owner, cancel)
        found = self.records()
        assert expected == {
            task: (r.state, r.attempt, r.deliveries, r.losses, r.owner, r.cancel) for task, r in found.items()
        }
        for task, record in found.items():
            assert record.seq >= self.tasks[task].seq, "event numbers only grow"
            self.tasks[task].seq = record.seq
        for task, t in self.tasks.items():
            if t.state in ("waiting", "running"):
                assert found[task].stream == self.home.keys.stream("echo", "+".join(t.caps), t.tier)

"""Ageing migrates a task to another server in four steps. The process dies after any of them: the task is neither
lost nor doubled, and the next pass goes on."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dalston_queue.broker import Consumer, EventReader, connect
from dalston_queue.broker.ageing import migrate as carrying
from dalston_queue.broker.connection.scripts import files, load
from dalston_queue.broker.connection.shard import Call, Shard
from dalston_queue.broker.errors import Unavailable
from dalston_queue.broker.protocol.messages import Cancelled, Completed
from dalston_queue.broker.protocol.types import EventKind, Priority, RecordState, Tier
from tests.broker.conftest import events_of, message
from tests.broker.proxy import LossyProxy
from tests.broker.servers import Nodes, nodes

STEPS = ("reserve", "depart", "promote", "forget_move")
LATER = 11 * 60_000


class Pair:
    """Two servers, and a second broker whose calls can be cut after each step."""

    def __init__(self, started: Nodes, folder: Path) -> None:
        self.home, self.low = started.start(folder / "home"), started.start(folder / "low")
        self.broker = connect(self.home.url, shards=f"*/low={self.low.url}")
        self._proxies = [LossyProxy(self.home.url), LossyProxy(self.low.url)]
        self._mortal = connect(self._proxies[0].url, shards=f"*/low={self._proxies[1].url}")
        self.consumer = Consumer(self.broker, "e", ["echo"], capacity=4)
        self.consumer.open()
        self.reader = EventReader(self.broker, "o")
        self.later = self.broker.home.now_ms() + LATER
        for shard in self.broker.shards:
            for path in files().values():
                shard.client.script_load(load(path.stem).source)

    def die_after(self, step: str) -> None:
        """A pass whose last act is this step: the server has run it, and nobody goes on."""
        for proxy in self._proxies:
            proxy.lose(load(step).sha.encode())
        with pytest.raises(Unavailable):
            self._mortal.promote("echo", now_ms=self.later)

    def promote(self) -> list[str]:
        return [event.task_id for event in self.broker.promote("echo", now_ms=self.later)]

    def entries(self) -> list[str]:
        """Of all lanes: what an engine could claim or has claimed."""
        found: list[str] = []
        for node in (self.home, self.low):
            for key in node.client.keys("dalston:stream:*"):
                found += [str(fields["t"]) for _, fields in node.client.xrange(key)]
        return sorted(found)

    def is_quiet(self) -> bool:
        """Nothing is on its way."""
        return not any(node.client.xlen("dalston:moving:echo") for node in (self.home, self.low))

    def run(self) -> list[str]:
        """Everything there is, one after another, and what is told of it is stored."""
        ran = []
        while claimed := self.consumer.claim():
            ran += [c.task_id for c in claimed]
            self.consumer.exchange([(c, Completed()) for c in claimed], free=0)
        self.told = events_of(self.reader)
        return ran

    def close(self) -> None:
        self.consumer.close()
        self.reader.close()
        for broker in (self.broker, self._mortal):
            broker.close()
        for proxy in self._proxies:
            proxy.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with nodes() as started:
        made = Pair(started, tmp_path)
        yield made
        made.close()


@pytest.mark.parametrize("step", STEPS)
def test_the_next_pass_completes_what_a_dead_one_began(pair: Pair, step: str) -> None:
    broker = pair.broker
    tasks = [message(name, priority=Priority.LOW, deliveries=1, timeout_ms=5000) for name in ("a", "b")]
    broker.append(tasks)
    pair.die_after(step)
    assert pair.entries() == ([] if step == "depart" else ["a", "b"]), "never two of one task"
    records = broker.records("echo", ["a", "b"])
    assert [record.state for record in records.values()] == [RecordState.WAITING] * 2, "never unknown"
    assert set(broker.append(tasks)) == {"duplicate"}
    pair.promote()
    assert pair.is_quiet() and pair.entries() == ["a", "b"]
    assert pair.home.client.xlen("dalston:stream:echo") == 2 and pair.low.client.hlen("dalston:tasks:echo") == 0
    stats = broker.snapshot().queues[0]
    assert (stats.waiting, stats.counters["appended"], stats.counters["promoted"]) == (2, 2, 2)
    assert "removed" not in stats.counters
    (first, _) = claimed = pair.consumer.claim()
    assert (first.tier, first.deliveries, first.timeout_ms) == (Tier.MEDIUM, 1, 5000)
    pair.consumer.exchange([(c, Completed()) for c in claimed])
    told = [e for e in events_of(pair.reader) if e.kind is EventKind.TASK_PROMOTED]
    assert [(e.task_id, e.seq, e.tier) for e in told] == [("a", 1, Tier.MEDIUM), ("b", 1, Tier.MEDIUM)]


@pytest.mark.parametrize("step", STEPS)
def test_what_ran_and_is_stored_meanwhile_does_not_run_again(pair: Pair, step: str) -> None:
    """Its record is gone with its event, so nothing but the reservation or the note is left to tell."""
    pair.broker.append([message("a", priority=Priority.LOW)])
    pair.die_after(step)
    ran = pair.run()
    assert ran == ([] if step == "depart" else ["a"])
    pair.promote()
    assert ran + pair.run() == ["a"]
    assert pair.promote() == [] and pair.run() == [] and pair.is_quiet()
    assert pair.broker.records("echo", ["a"]) == {}
    assert pair.broker.snapshot().queues[0].counters["completed"] == 1


@pytest.mark.parametrize("step", STEPS)
def test_one_that_runs_meanwhile_stays_with_its_engine(pair: Pair, step: str) -> None:
    pair.broker.append([message("a", priority=Priority.LOW)])
    pair.die_after(step)
    claimed = pair.consumer.claim()
    assert len(claimed) == (0 if step == "depart" else 1)
    if claimed:
        assert pair.broker.request_cancel("echo", "a", 1) == "flagged"
        pair.promote()
        assert pair.broker.records("echo", ["a"])["a"].state is RecordState.RUNNING
        assert pair.consumer.claim() == [] and claimed[0].settle(Completed()) == "ok"
        assert pair.is_quiet()


@pytest.mark.parametrize("step", STEPS)
def test_one_that_is_cancelled_meanwhile_does_not_come_back(pair: Pair, step: str) -> None:
    pair.broker.append([message("a", priority=Priority.LOW)])
    pair.die_after(step)
    assert pair.broker.request_cancel("echo", "a", 1) == "removed"
    assert pair.broker.records("echo", ["a"]) == {} and pair.consumer.claim() == []
    assert pair.promote() == [] and pair.is_quiet() and pair.entries() == []


@pytest.mark.parametrize("step", STEPS)
def test_a_new_attempt_takes_the_place_of_one_that_is_on_its_way(pair: Pair, step: str) -> None:
    pair.broker.append([message("a", priority=Priority.LOW)])
    pair.die_after(step)
    pair.broker.request_cancel("echo", "a", 1)
    assert pair.broker.append([message("a", priority=Priority.LOW, attempt=2)]) == ["added"]
    pair.promote()
    (claimed,) = pair.consumer.claim()
    assert claimed.attempt == 2 and claimed.settle(Completed()) == "ok"
    assert pair.promote() == [] and pair.consumer.claim() == [] and pair.is_quiet()


@pytest.mark.parametrize("runs", [False, True])
def test_a_new_attempt_does_not_run_beside_the_old_one_in_another_shard(pair: Pair, runs: bool) -> None:
    """Rebuilt from a row that doesn't know of the promotion yet, it goes to the shard that the old one came from."""
    pair.broker.append([message("a", priority=Priority.LOW)])
    assert pair.promote() == ["a"]
    old = pair.consumer.claim() if runs else []
    assert pair.broker.append([message("a", priority=Priority.LOW, attempt=2)]) == ["added"]
    assert pair.consumer.renew_all().cancelled == old
    ended = pair.consumer.exchange([(claimed, Cancelled()) for claimed in old])
    assert [claimed.attempt for claimed in ended.claimed] == [2]
    assert ended.claimed[0].settle(Completed()) == "ok" and pair.consumer.claim() == []


@pytest.mark.parametrize("reservation", ["junk", "high:junk", "recovered:1-1", "high:", ""])
def test_a_note_of_another_program_is_forgotten(pair: Pair, reservation: str) -> None:
    pair.broker.append([message("a", priority=Priority.LOW)])
    pair.low.client.xadd("dalston:moving:echo", {"t": "x", "for": reservation})
    assert pair.promote() == ["a"] and pair.is_quiet()


def test_a_foreign_record_that_not_everybody_can_read_does_not_keep_append_looking(pair: Pair) -> None:
    for line in ("w\t1-1\tx\t12\t0\tj\t1\t1\t0\t0", "w\t1-1\tx\t0\t0\tj\t 1\t1\t0\t0"):
        pair.low.client.hset("dalston:tasks:echo", "a", line)
        assert pair.broker.append([message("a", priority=Priority.LOW)]) == ["added"]
        assert pair.run() == ["a"]


@pytest.mark.parametrize("moment", [1, 2, 3])
@pytest.mark.parametrize("act", ["append", "records"])
def test_a_task_that_migrates_while_it_is_looked_for_is_found(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, act: str, moment: int
) -> None:
    """Missed in both shards, it had a second entry, and ran twice; or it was rebuilt as a new attempt."""
    pair.broker.append([message("a", priority=Priority.LOW)])
    looking = connect(pair.home.url, shards=f"*/low={pair.low.url}")
    trips = 0
    asked = Shard.calls

    def asked_and_migrated(shard: Shard, calls: Sequence[Call]) -> list[Any]:
        """The real calls, with a whole pass of ageing behind one of them."""
        nonlocal trips
        replies = asked(shard, calls)
        if shard in looking.shards:
            trips += 1
            if trips == moment:
                pair.promote()
        return replies

    monkeypatch.setattr(Shard, "calls", asked_and_migrated)
    if act == "append":
        assert looking.append([message("a", priority=Priority.LOW)]) == ["duplicate"]
    else:
        assert list(looking.records("echo", ["a"])) == ["a"]
    pair.promote()
    assert pair.entries() == ["a"]
    looking.close()


def test_two_passes_at_once_move_it_once(pair: Pair) -> None:
    """A pass that slept since step 1 or 2 goes on after another has done everything, and the task has run."""
    home, other = pair.broker.shards
    pair.broker.append([message("a", priority=Priority.LOW)])
    waiting = list(carrying._waiting(other, "echo", "", Tier.LOW, ["a"]))
    moves = carrying.reserve(home, "echo", "", Tier.MEDIUM, waiting)
    assert pair.promote() == ["a"] and pair.run() == ["a"]
    assert carrying.depart(other, "echo", "", Tier.MEDIUM, moves) == [""]
    stream = home.keys.moving("echo")
    reserved = [(move.task_id, move.reservation) for move in moves]
    assert carrying.put_in_lane(home, "echo", "", stream, Tier.MEDIUM, reserved) == []
    again = carrying.reserve(home, "echo", "", Tier.MEDIUM, waiting)  # one that has slept since before step 1
    assert carrying.depart(other, "echo", "", Tier.MEDIUM, again) == [""]
    assert pair.promote() == [] and pair.run() == [] and pair.is_quiet()
    pair.broker.append([message("a", priority=Priority.LOW, attempt=2)])
    newer = list(carrying._waiting(other, "echo", "", Tier.LOW, ["a"]))
    assert carrying.reserve(home, "echo", "", Tier.MEDIUM, newer)
    assert carrying.put_in_lane(home, "echo", "", stream, Tier.MEDIUM, reserved) == [], "not its reservation"
    assert pair.entries() == ["a"] and pair.promote() == ["a"] and pair.run() == ["a"]


def test_a_full_server_leaves_the_task_where_it_is(pair: Pair) -> None:
    pair.broker.append([message("a", priority=Priority.LOW)])
    pair.home.client.config_set("maxmemory", "1mb")
    assert pair.promote() == [] and pair.entries() == ["a"] and pair.is_quiet()
    assert pair.run() == ["a"], "it can still be claimed"


def test_a_migrated_task_is_a_duplicate_before_postgres_knows_of_it(pair: Pair) -> None:
    """Its row says `low` until the event is applied: appended there, it would have a second entry."""
    pair.broker.append([message("a", priority=Priority.LOW)])
    assert pair.promote() == ["a"]
    assert pair.broker.append([message("a", priority=Priority.LOW)]) == ["duplicate"]
    pair.home.client.delete("dalston:stream:echo")
    assert pair.broker.append([message("a", priority=Priority.LOW)]) == ["added"], "its entry is gone"
    assert pair.run() == ["a"]


def test_engines_hear_of_a_lane_that_is_new_in_the_other_shard(pair: Pair) -> None:
    pair.broker.append([message("a", priority=Priority.LOW, required_capabilities=("gpu",))])
    able = Consumer(pair.broker, "able", ["echo"], ["gpu"])
    able.open()
    assert pair.promote() == ["a"]
    able.claim()
    assert [c.task_id for c in able.held or able.claim()] == ["a"]
    able.close()

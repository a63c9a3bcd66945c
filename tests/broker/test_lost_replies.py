"""The reply of each script is dropped after the server has run it; the call is repeated; the world is as if it ran
once."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis._parsers.hiredis import _HiredisParser
from redis.connection import Connection

from dalston_queue.broker import Broker, Consumer, EventReader, connect
from dalston_queue.broker.ageing.migrate import Move, depart, forget, reserve
from dalston_queue.broker.broker import Limit
from dalston_queue.broker.connection.scripts import files, load
from dalston_queue.broker.errors import Unavailable
from dalston_queue.broker.nodes.commands import Command, CommandState, Reply
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.operations.lanes import retire_empty
from dalston_queue.broker.protocol.messages import Completed, ErrorInfo
from dalston_queue.broker.protocol.record import Record
from dalston_queue.broker.protocol.types import EngineState, NodeState, Priority, RecordState, Role, Tier
from tests.broker.conftest import BUDGETS, clean, message
from tests.broker.proxy import LossyProxy

ERROR = ErrorInfo(message="test")


@pytest.fixture
def proxy(redis_url: str) -> Iterator[LossyProxy]:
    made = LossyProxy(redis_url)
    yield made
    made.close()


@pytest.fixture
def lossy(proxy: LossyProxy, prefix: str) -> Iterator[Broker]:
    """A broker behind the proxy. The scripts are loaded: it is their own reply that gets lost, not a NOSCRIPT."""
    made = connect(proxy.url, prefix=prefix)
    for path in files().values():
        made.home.client.script_load(load(path.stem).source)
    yield made
    made.close()


def repeat(call: Callable[[], Any]) -> Any:
    with pytest.raises(Unavailable):
        call()
    return call()


def consumer(broker: Broker, name: str = "e", **options: Any) -> Consumer:
    made = Consumer(broker, name, ["echo"], **options)
    made.open()
    return made


def running(broker: Broker, name: str = "e", **options: Any) -> Consumer:
    broker.append([message("a", timeout_ms=60_000)])
    made = consumer(broker, name, **options)
    assert len(made.claim()) == 1
    return made


# Each case prepares the world and returns the call to be lost and repeated, and the check of its second result.


def _open(b: Broker) -> Any:
    made = Consumer(b, "e", ["echo"])
    return made.open, lambda _: b.registry.pulses() is not None and made.claim() == []


def _append(b: Broker) -> Any:
    def once(answer: Any) -> bool:
        return answer == ["duplicate", "duplicate"] and b.snapshot().queues[0].waiting == 2

    return lambda: b.append([message("a"), message("b")]), once


def _exchange(b: Broker) -> Any:
    made = running(b)
    b.append([message("b"), message("c")])
    (first,) = made.held

    def once(got: Any) -> bool:
        (second,) = got.claimed
        stats = b.snapshot().queues[0]
        assert got.settled == ["ok"] and second.task_id == "b" and made.held == [second]
        assert (stats.waiting, stats.running, stats.counters["completed"]) == (1, 1, 1)
        return made.exchange([(second, Completed())]).claimed[0].task_id == "c"

    return lambda: made.exchange([(first, Completed())]), once


def _beat(b: Broker) -> Any:
    made = running(b)
    return lambda: made.beat({"a": 1}), lambda beat: beat.lost == [] and beat.given_again == []


def _release(b: Broker) -> Any:
    made = running(b)

    def once(given: Any) -> bool:
        stats = b.snapshot().queues[0]
        assert given == [], "the second time it is no longer ours"
        return made.held == [] and stats.waiting == 1 and stats.counters["released"] == 1

    return made.release, once


def _reclaim(b: Broker) -> Any:
    running(b)
    return lambda: b.reclaim(
        "e", ["echo"], **BUDGETS
    ), lambda taken: taken.moved == 0 and b.records("echo", ["a"])["a"].deliveries == 1


def _expire(b: Broker) -> Any:
    running(b)
    return lambda: b.expire("echo", "a", 1, ERROR), lambda answer: answer == "absent" and b.pending("echo").total == 0


def _cancel(b: Broker) -> Any:
    b.append([message("a")])
    return lambda: b.remove("echo", "a"), lambda answer: answer == "absent" and b.snapshot().queues[0].waiting == 0


def _promote(b: Broker) -> Any:
    b.append([message("a", priority=Priority.LOW, enqueued_at_ms=1_000), message("b", priority=Priority.LOW)])
    now = b.home.now_ms() + 11 * 60_000

    def once(moved: Any) -> bool:
        stats = b.snapshot().queues[0]
        return stats.waiting == 2 and stats.counters["promoted"] >= 2 and b.records("echo", ["b"])["b"].seq == 1

    return lambda: b.promote("echo", now_ms=now), once


def _reserve(b: Broker) -> Any:
    """What comes from another shard; the records of it are made up here, because one server has one shard."""
    home, record = b.home, Record(attempt=1, seq=0, state=RecordState.WAITING, job_id="j")
    waiting = [("a", record, b"1\tj\t1\t1000\t0", b'{"task_type":"echo"}')]

    def once(moves: Any) -> bool:
        return [m.task_id for m in moves] == ["a"] and home.command("XLEN", home.keys.moving("echo")) == 1

    return lambda: reserve(home, "echo", "", Tier.MEDIUM, waiting), once


def _depart(b: Broker) -> Any:
    b.append([message("a", priority=Priority.LOW)])
    home, move = b.home, Move("a", 1, 0, "1-1")

    def once(notes: Any) -> bool:
        ids = [entry.decode() for entry, _ in home.command("XRANGE", home.keys.moving("echo"), "-", "+")]
        return notes == ids and len(ids) == 1 and b.snapshot().queues[0].waiting == 0

    return lambda: depart(home, "echo", "", Tier.MEDIUM, [move]), once


def _forget_move(b: Broker) -> Any:
    call, _ = _depart(b)
    (note,) = call()
    home = b.home
    return lambda: forget(home, "echo", [("a", note)]), lambda _: b.records("echo", ["a"]) == {}


def _dead_letter(b: Broker) -> Any:
    made = consumer(b)
    keys = b.home.keys
    names = [keys.tasks("echo"), keys.lanes("echo"), keys.wake("echo"), keys.ageing("echo"), keys.counters("echo")]
    names += [keys.running("echo"), keys.deadlines("echo"), keys.stream("echo")]
    b.home.run("append", names, ["", 32, 0, 3, 0, "bad", "job", 1, 0, 0, 0, 0, 0, b"not json"])
    b.home.command("SADD", keys.stages(), "echo")

    def call() -> Any:
        found = made.exchange()
        made.beat()
        return found

    return call, lambda _: b.snapshot().queues[0].counters["dead_lettered"] == 1 and b.pending("echo").total == 0


def _ack(b: Broker) -> Any:
    running(b).held[0].settle(Completed())
    reader = EventReader(b, "o")
    batch = reader.read(block_ms=0)
    return lambda: reader.ack(
        batch
    ), lambda _: b.records("echo", ["a"]) == {} and b.snapshot().queues[0].events_backlog == 0


def _close(b: Broker) -> Any:
    made = consumer(b)
    return made.close, lambda _: b.registry.pulses() == {}


def _forget(b: Broker) -> Any:
    b.publish_jobs_created(["j"])
    reader = EventReader(b, "o")
    reader.ack(reader.read(block_ms=0))
    home = b.home
    key = home.keys.events("_jobs")
    return reader.close, lambda _: home.client.xinfo_groups(key)[0]["consumers"] == 0


def _acquire(b: Broker) -> Any:
    lease = b.lease(Role.ORCHESTRATOR, "me")
    return lambda: lease.acquire(1), lambda held: held and lease.held


def _renew(b: Broker) -> Any:
    lease = b.lease(Role.ORCHESTRATOR, "me")
    lease.acquire(1)
    return lease.renew, lambda held: held and lease.held


def _release_lease(b: Broker) -> Any:
    lease = b.lease(Role.ORCHESTRATOR, "me")
    lease.acquire(1)
    return lease.release, lambda _: lease.leader() is None


def _retire(b: Broker) -> Any:
    b.append([message("a", required_capabilities=("gpu",))])
    b.remove("echo", "a")
    return lambda: retire_empty(b.home, "echo"), lambda _: b.lanes("echo") == []


def _ghosts(b: Broker) -> Any:
    (claimed,) = running(b).held
    b.home.command("XDEL", claimed.stream, claimed.entry_id)
    return lambda: b.acknowledge_ghosts("echo"), lambda _: b.snapshot().queues[0].lanes[2].consistent


def _beats(b: Broker) -> Any:
    beat = EngineBeat(engine_id="e", state=EngineState.READY, queues=("echo",))
    b.registry.beat_node("n", NodeState.ACTIVE, [beat])
    return lambda: b.registry.beat_node("n", NodeState.ACTIVE, [beat]), lambda _: len(b.registry.engines()) == 1


def _condemn(b: Broker) -> Any:
    consumer(b)
    pulse = b.registry.pulses()["e"]
    return lambda: b.registry.condemn(pulse), lambda _: list(b.registry.dead("echo")) == ["e"]


def _group(b: Broker) -> Any:
    b.publish_jobs_created(["j"])
    reader = EventReader(b, "o")
    return lambda: reader.read(block_ms=0), lambda batch: reader.ack(batch) == 1


def _send(b: Broker) -> Any:
    node = b.node("n")
    b.registry.beat_node("n", NodeState.ACTIVE, [])
    sent = Command(name="drain", command_id="c1")
    return lambda: node.send(sent), lambda _: [c.name for c in node.receive("0")] == ["drain"]


def _answer(b: Broker) -> Any:
    node = b.node("n")
    b.registry.beat_node("n", NodeState.ACTIVE, [])
    node.send(Command(name="drain", command_id="c1"))
    done = Reply(command_id="c1", state=CommandState.DONE, message="drained")

    def once(_: Any) -> bool:
        status = node.status("c1")
        return status is not None and (status.state, status.message) == (CommandState.DONE, "drained")

    return lambda: node.reply(done), once


def _write_log(b: Broker) -> Any:
    """The batch may be there twice; its lines have positions, so that a reader shows each once."""
    logs = b.logs("n")
    b.registry.beat_node("n", NodeState.ACTIVE, [])
    return lambda: logs.write(
        "demo.0", [(7, "a line")]
    ), lambda _: {line.position for batch in logs.read("0") for line in batch.lines} == {7}


def _rate(b: Broker) -> Any:
    """Each request has a name of its own, so one that is repeated by its caller counts as two: never above the
    limit."""
    limits = [Limit(2, 60)]

    def once(wait: Any) -> bool:
        spent = b.take_rate("caller", limits) > 0
        b.home.command("DEL", b.home.keys.rate("caller"))
        return wait == 0 and spent

    return lambda: b.take_rate("caller", limits), once


def _requeue(b: Broker) -> Any:
    running(b)
    return lambda: b.requeue("echo", "a", 1, ERROR), lambda again: again == "waiting"


def _reads(call: Callable[[Broker], Any]) -> Callable[[Broker], Any]:
    def prepare(b: Broker) -> Any:
        b.append([message("a", priority=Priority.LOW)])
        return lambda: call(b), lambda _: True

    return prepare


CASES = {
    "open_session": _open,
    "append": _append,
    "settle_and_claim": _exchange,
    "beat": _beat,
    "release": _release,
    "reclaim": _reclaim,
    "expire": _expire,
    "cancel": _cancel,
    "promote": _promote,
    "reserve": _reserve,
    "depart": _depart,
    "forget_move": _forget_move,
    "dead_letter": _dead_letter,
    "ack_events": _ack,
    "close_session": _close,
    "forget_consumer": _forget,
    "lease_acquire": _acquire,
    "lease_renew": _renew,
    "lease_release": _release_lease,
    "retire_lane": _retire,
    "ghosts": _ghosts,
    "register": _beats,
    "pulse": _beats,
    "index": _beats,
    "put_field": _condemn,
    "send_command": _send,
    "answer_command": _answer,
    "add_capped": _write_log,
    "ensure_group": _group,
    "take_rate": _rate,
    "requeue": _requeue,
    "waiting_page": _reads(lambda b: b.waiting("echo")),
    "held_page": _reads(lambda b: b.held("echo")),
    "queue_stats": _reads(lambda b: b.snapshot()),
    "front": _reads(lambda b: b.promote("echo")),
    "pending_page": _reads(lambda b: b.pending("echo")),
}


def test_every_script_has_its_case() -> None:
    assert CASES.keys() == files().keys()


@pytest.mark.parametrize("name", CASES)
def test_a_lost_reply_changes_nothing(name: str, broker: Broker, lossy: Broker, proxy: LossyProxy) -> None:
    call, check = CASES[name](lossy)
    proxy.lose(load(name).sha.encode())
    assert check(repeat(call))
    assert proxy.lost == 1
    clean(lossy)


def test_redis_py_does_not_repeat_by_itself(broker: Broker, lossy: Broker, proxy: LossyProxy) -> None:
    """By default it retries a dropped reply up to ten times: the second run would claim another task."""
    broker.append([message(f"t{n}") for n in range(5)])
    made = consumer(lossy)
    proxy.lose(load("settle_and_claim").sha.encode())
    with pytest.raises(Unavailable):
        made.claim()
    assert broker.snapshot().queues[0].running == 1
    (claimed,) = made.claim()
    assert claimed.task_id == "t0" and broker.snapshot().queues[0].running == 1
    made.close()


def test_an_unreadable_record_among_what_is_given_again_is_dead_lettered_alone(
    broker: Broker, lossy: Broker, proxy: LossyProxy
) -> None:
    """A line break in it would cut in two what the engine is given."""
    broker.append([message("a"), message("b")])
    made = consumer(lossy, capacity=2)
    proxy.lose(load("settle_and_claim").sha.encode())
    with pytest.raises(Unavailable):
        made.claim()
    home = broker.home
    fields = home.command("HGET", home.keys.tasks("echo"), "a").split(b"\t")
    home.command("HSET", home.keys.tasks("echo"), "a", b"\t".join([*fields[:5], b"x\ny", *fields[6:]]))
    assert [c.task_id for c in made.claim()] == ["b"]
    made.close()


def test_a_call_that_is_interrupted_counts_as_one_whose_reply_got_lost(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reply may still come, and must not be taken for the next one's: that said of an accepted result that it was
    lost."""
    broker.append([message(f"t{n}") for n in range(5)])
    made = consumer(broker)
    claimed = made.claim()

    def interrupted(_: Connection) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "read_response", interrupted)
        with pytest.raises(KeyboardInterrupt):
            made.exchange([(claimed[0], Completed())])
    for following in ("t1", "t2", "t3", "t4"):
        got = made.exchange([(claimed[0], Completed())])
        assert (got.settled, [c.task_id for c in got.claimed]) == (["ok"], [following])
        claimed = got.claimed
    made.close()


def test_bytes_that_are_no_reply_count_as_a_lost_connection(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine lives on and connects anew."""
    broker.append([message("a")])
    made = consumer(broker)
    read: Any = _HiredisParser.read_from_socket

    def garbled(parser: Any, *arguments: Any, **options: Any) -> Any:
        parser._reader.feed(b"HTTP/1.1 400 Bad Request\r\n")
        return read(parser, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(_HiredisParser, "read_from_socket", garbled)
        with pytest.raises(Unavailable):
            made.claim()
    assert [c.task_id for c in made.claim()] == ["a"]
    made.close()


def test_new_settlements_join_the_repeated_call(broker: Broker, lossy: Broker, proxy: LossyProxy) -> None:
    """The caller may have more to say by the time it repeats."""
    broker.append([message(f"t{n}") for n in range(4)])
    made = consumer(lossy, capacity=2)
    one, two = made.claim()
    proxy.lose(load("settle_and_claim").sha.encode())
    with pytest.raises(Unavailable):
        made.exchange([(one, Completed())])
    got = made.exchange([(one, Completed()), (two, Completed())])
    assert got.settled == ["ok", "ok"]
    assert {c.task_id for c in made.held} == {"t2", "t3"}
    assert broker.snapshot().queues[0].counters["completed"] == 2
    made.close()


def test_two_replies_lost_in_a_row_do_not_make_a_result_refused(
    broker: Broker, lossy: Broker, proxy: LossyProxy
) -> None:
    """The second call of the same turn: the first was repeated and told that its result counts."""
    broker.append([message(f"t{n}") for n in range(4)])
    made = consumer(lossy)
    (first,) = made.claim()
    proxy.lose(load("settle_and_claim").sha.encode())
    with pytest.raises(Unavailable):
        made.exchange([(first, Completed())])
    (second,) = made.beat().given_again
    proxy.lose(b"\r\n3 ")  # the number of the call behind the repeated one
    with pytest.raises(Unavailable):
        made.exchange([(first, Completed()), (second, Completed())])
    assert made.exchange([(first, Completed()), (second, Completed())]).settled == ["ok", "ok"]
    assert proxy.lost == 2
    assert broker.snapshot().queues[0].counters == {"appended": 4, "completed": 2}
    made.close()


def test_a_task_that_comes_again_after_a_lost_release_is_held_once(
    broker: Broker, lossy: Broker, proxy: LossyProxy
) -> None:
    broker.append([message("a")])
    made = consumer(lossy, capacity=2)
    assert made.claim()[0].release()
    (first,) = made.claim()  # from the stream that it goes back to
    proxy.lose(load("release").sha.encode())
    with pytest.raises(Unavailable):
        made.release()
    (again,) = made.claim()
    assert (again.task_id, again.stream, again.attempt) == (first.task_id, first.stream, first.attempt)
    assert made.beat().lost == [first] and made.held == [again]
    assert again.settle(Completed()) == "ok"
    made.close()


def test_what_a_beat_gave_again_is_not_given_by_the_repeated_call(
    broker: Broker, lossy: Broker, proxy: LossyProxy
) -> None:
    """Found by the state machine: it would have run, been settled, and run again."""
    broker.append([message("a")])
    made = consumer(lossy)
    proxy.lose(load("settle_and_claim").sha.encode())
    with pytest.raises(Unavailable):
        made.claim()
    (claimed,) = made.beat().given_again
    got = made.exchange([(claimed, Completed())])
    assert got.settled == ["ok"] and got.claimed == [] and made.held == []
    made.close()


def test_what_one_queue_gave_is_not_forgotten_when_another_fails(
    broker: Broker, lossy: Broker, proxy: LossyProxy
) -> None:
    """An engine of two queues: the first answers, the second's reply gets lost. Both answers must reach the caller."""
    queues = ["echo", "sleep"]
    broker.append([message(f"{queue}{n}", queue=queue) for queue in queues for n in range(3)])
    made = Consumer(lossy, "e", queues, capacity=2)
    made.open()
    started = made.claim()
    assert {c.message.queue for c in started} != set(), started
    settling = [(c, Completed()) for c in started]
    for losing in queues:
        proxy.lose(f":session:{losing}:".encode())
        with pytest.raises(Unavailable):
            made.exchange(settling, free=4)
        got = made.exchange(settling, free=0)
        assert got.settled == ["ok"] * len(settling)
        assert {c.place for c in got.claimed} == {c.place for c in made.held}, "held means told"
        settling = [(c, Completed()) for c in got.claimed]
    assert sum(q.counters.get("refused", 0) for q in broker.snapshot().queues) == 0
    made.close()


def test_a_lost_claim_counts_before_another_queue_is_asked(broker: Broker, lossy: Broker, proxy: LossyProxy) -> None:
    queues = ["echo", "sleep"]
    made = Consumer(lossy, "e", queues, capacity=1)
    made.open()
    broker.append([message(queue, queue=queue) for queue in queues])
    proxy.lose(load("settle_and_claim").sha.encode())
    with pytest.raises(Unavailable):
        made.claim()
    assert len(made.claim()) == len(made.held) == 1
    made.close()

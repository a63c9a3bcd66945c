"""An engine's calls whose replies get lost: repeated, they neither lose a result nor run a task twice."""

from typing import Any

import pytest
from redis._parsers.hiredis import _HiredisParser
from redis.connection import Connection

from dalston_queue.broker import Broker
from dalston_queue.broker.connection.scripts import load
from dalston_queue.broker.errors import Unavailable
from dalston_queue.broker.protocol.messages import Completed
from dalston_queue.broker.protocol.types import Tier
from tests.broker.conftest import message, open_consumer
from tests.broker.proxy import LossyProxy


def test_redis_py_does_not_repeat_by_itself(broker: Broker, lossy: Broker, proxy: LossyProxy) -> None:
    """By default it retries a dropped reply up to ten times: the second run would claim another task."""
    broker.append([message(f"t{n}") for n in range(5)])
    made = open_consumer(lossy)
    proxy.lose(load("settle_and_claim").sha.encode())
    with pytest.raises(Unavailable):
        made.claim()
    assert broker.snapshot().queues[0].running == 1
    (claimed,) = made.claim()
    assert claimed.task_id == "t0" and broker.snapshot().queues[0].running == 1
    made.close()


def test_an_unreadable_record_among_what_is_missing_is_dead_lettered_alone(
    broker: Broker, lossy: Broker, proxy: LossyProxy
) -> None:
    """A line break in the record would split the answer to the engine."""
    broker.append([message("a"), message("b")])
    made = open_consumer(lossy, capacity=2)
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
    """Its reply may still come. Read as the next call's reply, it reported an accepted result as lost."""
    broker.append([message(f"t{n}") for n in range(5)])
    made = open_consumer(broker)
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
    made = open_consumer(broker)
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
    """The engine may have more results by the time it repeats the call."""
    broker.append([message(f"t{n}") for n in range(4)])
    made = open_consumer(lossy, capacity=2)
    one, two = made.claim()
    proxy.lose(load("settle_and_claim").sha.encode())
    with pytest.raises(Unavailable):
        made.exchange([(one, Completed())])
    got = made.exchange([(one, Completed()), (two, Completed())])
    assert got.settled == ["ok", "ok"]
    assert {c.task_id for c in made.held} == {"t2", "t3"}
    assert broker.snapshot().queues[0].counters["completed"] == 2
    made.close()


def test_a_suspect_whose_claim_got_no_reply_runs_alone(broker: Broker, lossy: Broker, proxy: LossyProxy) -> None:
    """The exchange that repeats the claim has room for more, and claims none."""
    broker.append([message("suspect", deliveries=2)])
    made = open_consumer(lossy, capacity=4)
    proxy.lose(load("settle_and_claim").sha.encode())
    with pytest.raises(Unavailable):
        made.exchange()
    broker.append([message("plain")])
    (suspect,) = made.exchange().claimed
    assert suspect.tier is Tier.SUSPECT
    assert [c.task_id for c in made.exchange([(suspect, Completed())]).claimed] == ["plain"]
    made.close()


def test_two_replies_lost_in_a_row_do_not_make_a_result_refused(
    broker: Broker, lossy: Broker, proxy: LossyProxy
) -> None:
    """The second call of the same exchange: the first was repeated, and its result was accepted."""
    broker.append([message(f"t{n}") for n in range(4)])
    made = open_consumer(lossy)
    (first,) = made.claim()
    proxy.lose(load("settle_and_claim").sha.encode())
    with pytest.raises(Unavailable):
        made.exchange([(first, Completed())])
    (second,) = made.renew_all().missing
    proxy.lose(b"\r\n$1\r\n3\r\n")  # the number of the call behind the repeated one
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
    made = open_consumer(lossy, capacity=2)
    assert made.claim()[0].release()
    (first,) = made.claim()  # from the stream that it goes back to
    proxy.lose(load("release").sha.encode())
    with pytest.raises(Unavailable):
        made.release()
    (again,) = made.claim()
    assert (again.task_id, again.stream, again.attempt) == (first.task_id, first.stream, first.attempt)
    assert made.renew_all().lost == [first] and made.held == [again]
    assert again.settle(Completed()) == "ok"
    made.close()


def test_what_a_renewal_delivered_again_is_not_delivered_by_the_repeated_call(
    broker: Broker, lossy: Broker, proxy: LossyProxy
) -> None:
    """Found by the state machine: it would have run, been settled, and run again."""
    broker.append([message("a")])
    made = open_consumer(lossy)
    proxy.lose(load("settle_and_claim").sha.encode())
    with pytest.raises(Unavailable):
        made.claim()
    (claimed,) = made.renew_all().missing
    got = made.exchange([(claimed, Completed())])
    assert got.settled == ["ok"] and got.claimed == [] and made.held == []
    made.close()


def test_what_one_queue_gave_is_not_forgotten_when_another_fails(
    broker: Broker, lossy: Broker, proxy: LossyProxy
) -> None:
    """An engine of two queues: the first answers, the second's reply gets lost. Both answers must reach the caller."""
    queues = ["echo", "sleep"]
    broker.append([message(f"{queue}{n}", queue=queue) for queue in queues for n in range(3)])
    made = open_consumer(lossy, "e", queues, capacity=2)
    started = made.claim()
    assert {c.message.queue for c in started} != set(), started
    settling = [(c, Completed()) for c in started]
    for losing in queues:
        proxy.lose(f":session:{losing}:".encode())
        with pytest.raises(Unavailable):
            made.exchange(settling, free=4)
        got = made.exchange(settling, free=0)
        assert got.settled == ["ok"] * len(settling)
        assert {c.key for c in got.claimed} == {c.key for c in made.held}, "the caller got what is held"
        settling = [(c, Completed()) for c in got.claimed]
    assert sum(q.counters.get("refused", 0) for q in broker.snapshot().queues) == 0
    made.close()


def test_a_lost_claim_counts_before_another_queue_is_asked(broker: Broker, lossy: Broker, proxy: LossyProxy) -> None:
    queues = ["echo", "sleep"]
    made = open_consumer(lossy, "e", queues, capacity=1)
    broker.append([message(queue, queue=queue) for queue in queues])
    proxy.lose(load("settle_and_claim").sha.encode())
    with pytest.raises(Unavailable):
        made.claim()
    assert len(made.claim()) == len(made.held) == 1
    made.close()

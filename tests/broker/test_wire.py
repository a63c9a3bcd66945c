"""The bare connection: a reply is looked for shortly, then slept for."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from dalston_queue.broker import Broker
from dalston_queue.broker.connection.link import Link
from dalston_queue.broker.connection.scripts import load
from dalston_queue.broker.connection.wire import Wire, packed
from dalston_queue.broker.errors import Unavailable
from tests.support import PATIENCE_S

BLOCKED_S = 0.1


def test_a_reply_that_takes_its_time_is_slept_for(broker: Broker) -> None:
    home = broker.topology.home
    wire = Wire(home.connection("nothing"), look=True)
    before = time.thread_time()
    for _ in range(5):
        assert wire.ask(packed("BLPOP", home.keys.stages() + ":nothing", BLOCKED_S)) is None
    assert time.thread_time() - before < BLOCKED_S, "it looked for the reply all the time"
    wire.close()


def test_a_looker_that_was_put_aside_sleeps_for_its_replies(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel wakes a sleeper at once. A looker that gives way to a busy process waits for the end of its turn."""
    home = broker.topology.home
    monkeypatch.setattr("dalston_queue.broker.connection.wire.LOOK_S", PATIENCE_S)
    monkeypatch.setattr("dalston_queue.broker.connection.wire._give_way", lambda: time.sleep(0.001))
    wire = Wire(home.connection("nothing"), look=True)
    wire.ask(packed("BLPOP", home.keys.stages() + ":nothing", BLOCKED_S))
    assert not wire.looks
    wire.close()


def test_a_looker_gives_way_first_and_then_every_40_us_and_looks_after_each_time(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Giving way after each look would let a process of idle priority run each time; never giving way would keep a
    server off the core."""
    wire = Wire(broker.topology.home.connection("nothing"), look=True)
    now_us, seen = [0], []

    def give_way() -> None:
        seen.append("way")
        now_us[0] += 100

    def poll(_: int) -> bool:
        seen.append("look")
        now_us[0] += 15
        return seen.count("look") == 7

    monkeypatch.setattr(
        "dalston_queue.broker.connection.wire.time", SimpleNamespace(perf_counter=lambda: now_us[0] / 1e6)
    )
    monkeypatch.setattr("dalston_queue.broker.connection.wire._give_way", give_way)
    monkeypatch.setattr(wire, "_poll", poll)
    assert wire._look()
    assert seen == [*["way", "look", "look", "look"] * 2, "way", "look"]
    wire.close()


def test_who_looks_in_vain_again_and_again_looks_ever_more_seldom_until_a_look_succeeds(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = broker.topology.home
    monkeypatch.setattr("dalston_queue.broker.connection.wire.MOST_PATIENCE", 4)
    wire = Wire(home.connection("nothing"), look=True)

    def sleeps_after_a_late_reply() -> int:
        assert wire.looks
        wire.ask(packed("BLPOP", home.keys.stages() + ":nothing", BLOCKED_S))
        slept = 0
        while not wire.looks:
            assert wire.ask(packed("PING")) == b"PONG"
            slept += 1
        return slept

    assert [sleeps_after_a_late_reply() for _ in range(4)] == [1, 2, 4, 4]
    with monkeypatch.context() as patch:
        for limit in ("LOOK_S", "ASIDE_S"):
            patch.setattr(f"dalston_queue.broker.connection.wire.{limit}", PATIENCE_S)
        assert wire.ask(packed("PING")) == b"PONG"
    assert sleeps_after_a_late_reply() == 1
    wire.close()


def test_only_who_asks_for_it_looks(broker: Broker) -> None:
    """An engine's own link does. Threads of a web process share an interpreter, and a sleeper sleeps."""
    home = broker.topology.home
    link, wire = Link(home, "nothing"), Wire(home.connection("nothing"))
    assert link.wire().looks
    assert not wire.looks
    link.close()
    wire.close()


def test_bytes_that_are_no_reply_count_as_a_lost_connection(broker: Broker) -> None:
    """An engine lives on and connects anew."""
    link = Link(broker.topology.home, "nothing")
    link.wire()._reader.feed(b"HTTP/1.1 400 Bad Request")  # as if they had come before the reply
    with pytest.raises(Unavailable):
        link.call(load("index"), packed("PING"))
    assert link.call(load("index"), packed("PING")) == b"PONG"
    link.close()

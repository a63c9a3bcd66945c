"""Log lines of a node: asked for once, or followed while a reader reads."""

import threading

import pytest

from dalston_queue.broker import Broker
from dalston_queue.broker.nodes.commands import CommandState, Reply
from dalston_queue.broker.nodes.logs import BATCHES_KEPT, node_and_slot
from dalston_queue.broker.protocol.types import NodeState


@pytest.fixture(autouse=True)
def n1(broker: Broker) -> None:
    broker.registry.beat_node("n1", NodeState.ACTIVE, [])


def stamped(*texts: str, first: int = 1) -> list[tuple[int, str]]:
    return [(first + n, f"2026-01-02T03:04:05.678Z {text}") for n, text in enumerate(texts)]


def test_the_answer_to_a_question_is_found_among_all_that_is_sent(broker: Broker) -> None:
    logs = broker.logs("n1")

    def supervisor() -> None:
        (command,) = broker.node("n1").receive("0", block_ms=4000)
        logs.write("demo.0", stamped("of others"))
        logs.write("demo.0", stamped("mine", "zwei ü"), command.command_id)
        broker.node("n1").reply(Reply(command_id=command.command_id, state=CommandState.DONE))

    thread = threading.Thread(target=supervisor)
    thread.start()
    tail = logs.tail("demo.0", lines=2)
    thread.join()
    assert tail.complete
    assert [line.text for line in tail.lines] == ["mine", "zwei ü"]
    assert tail.lines[0].at_ms == 1767323045678


def test_a_node_that_is_away_or_refuses_gives_a_tail_without_lines_and_its_status(broker: Broker) -> None:
    logs = broker.logs("n1")
    away = logs.tail("demo.0", timeout=0.1)
    assert away.status is not None and (away.status.state, away.complete) == ("requested", False)

    def supervisor() -> None:
        command = broker.node("n1").receive("0")[0]
        (command,) = broker.node("n1").receive(command.entry_id, block_ms=4000)
        broker.node("n1").reply(Reply(command_id=command.command_id, state=CommandState.FAILED, message="no engine"))

    thread = threading.Thread(target=supervisor)
    thread.start()
    refused = logs.tail("demo.0")
    thread.join()
    assert refused.status is not None and (refused.status.message, refused.lines) == ("no engine", [])


def test_a_follower_gets_the_tail_and_then_each_line_once_whatever_the_order_of_arrival(broker: Broker) -> None:
    logs = broker.logs("n1")
    follower = logs.follow("demo.0")
    asked = {command.name: command for command in broker.node("n1").receive("0")}
    assert asked["follow_logs"].arguments == {"engine": "demo.0", "seconds": 60}
    logs.write("demo.0", stamped("three", "four", first=3))  # followed, before the tail has come
    logs.write("other.0", stamped("of another"))
    assert follower.read() == []
    logs.write("demo.0", stamped("one", "two", "three"), asked["tail_logs"].command_id)
    assert [line.text for line in follower.read()] == ["one", "two", "three", "four"]
    logs.write("demo.0", stamped("four", "five", first=4))
    assert [line.text for line in follower.read()] == ["five"]
    assert follower.read() == []


def test_all_followers_of_an_engine_share_one_request(broker: Broker) -> None:
    followers = [broker.logs("n1").follow(engine) for engine in ("demo.0", "n1.demo.0.b00t", "demo.0")]
    for follower in followers:
        follower.read()
    names = [command.name for command in broker.node("n1").receive("0", count=100)]
    assert names.count("follow_logs") <= 2, "two only at the turn of the period"


def test_the_stream_is_capped_and_expires_and_invalid_entries_are_skipped(broker: Broker) -> None:
    home, logs = broker.home, broker.logs("n1")
    for fields in (("x", "y"), ("m", b"\xff"), ("m", "[1]")):
        home.command("XADD", home.keys.logs("n1"), "*", *fields)
    assert logs.read("0") == []
    for number in range(BATCHES_KEPT + 10):
        logs.write("demo.0", stamped(str(number)))
    assert home.command("XLEN", home.keys.logs("n1")) == BATCHES_KEPT
    assert 0 < home.command("TTL", home.keys.logs("n1")) <= 600


def test_node_and_slot_are_read_from_an_engine_id() -> None:
    assert node_and_slot("gpu.rack-7.demo.0.a1b2") == ("gpu.rack-7", "demo.0")
    assert node_and_slot("demo.0") is None

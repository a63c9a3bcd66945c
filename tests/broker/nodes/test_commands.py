"""Commands to a node: sent once per id, taken, done or failed, with times."""

import pytest

from dalston_queue.broker import Broker
from dalston_queue.broker.errors import Invalid
from dalston_queue.broker.nodes.commands import COMMANDS_KEPT, QUESTIONS_KEPT, Command, CommandState, Reply
from dalston_queue.broker.protocol.types import NodeState


@pytest.fixture(autouse=True)
def n1(broker: Broker) -> None:
    broker.registry.beat_node("n1", NodeState.ACTIVE, [])


def test_a_command_reaches_the_node_and_its_state_is_seen_all_the_way(broker: Broker) -> None:
    dashboard, supervisor = broker.node("n1"), broker.node("n1")
    command_id = dashboard.send(Command(name="drain", arguments={"reason": "x"}, actor="alice"))
    status = dashboard.status(command_id)
    assert status is not None and (status.state, status.actor, status.message) == ("requested", "alice", "")
    (command,) = supervisor.receive("0")
    assert (command.name, command.arguments, command.actor) == ("drain", {"reason": "x"}, "alice")
    assert command.command_id == command_id and command.at_ms > 0
    assert supervisor.receive(command.entry_id) == []
    supervisor.reply(Reply(command_id=command_id, state=CommandState.TAKEN, message="draining"))
    taken = dashboard.status(command_id)
    assert taken is not None and (taken.state, taken.message, taken.ended) == ("taken", "draining", False)
    supervisor.reply(Reply(command_id=command_id, state=CommandState.DONE, message="drained"))
    supervisor.reply(Reply(command_id=command_id, state=CommandState.FAILED, message="too late"))
    done = dashboard.wait(command_id, 5)
    assert done is not None and (done.state, done.message) == ("done", "drained"), "done is final"
    assert done.taken_at_ms and done.ended_at_ms
    assert done.requested_at_ms <= done.taken_at_ms <= done.ended_at_ms


def test_a_command_id_sends_once_and_belongs_to_one_command(broker: Broker) -> None:
    node = broker.node("n1")
    for _ in range(2):
        assert node.send(Command(name="restart", arguments={"engine": "demo"}, command_id="click-1")) == "click-1"
    assert len(node.receive("0")) == 1
    with pytest.raises(Invalid, match="belongs to another command: restart"):
        node.send(Command(name="restart", arguments={"engine": "other"}, command_id="click-1"))
    with pytest.raises(Invalid, match="must be 1 to 100"):
        node.send(Command(name="restart", command_id="click 1"))


def test_the_history_shows_commands_and_no_questions_the_newest_first(broker: Broker) -> None:
    node = broker.node("n1")
    for name in ("drain", "tail_logs", "resume"):
        node.send(Command(name=name))
    assert [status.name for status in node.recent()] == ["resume", "drain"]


def test_questions_for_logs_push_no_command_out(broker: Broker) -> None:
    """A drain waits for a node that is away, while a page follows its logs."""
    node, home = broker.node("n1"), broker.home
    drain = node.send(Command(name="drain"))
    for _ in range(QUESTIONS_KEPT + 1):
        last = node.send(Command(name="follow_logs"))
    [first, *_] = node.receive("0")
    assert (first.command_id, first.asks) == (drain, False)
    assert [status.command_id for status in node.recent(1)] == [drain]
    assert home.command("XLEN", home.keys.questions("n1")) == QUESTIONS_KEPT
    asked = node.receive(first.entry_id, asked="0", count=QUESTIONS_KEPT)
    assert (asked[-1].command_id, {each.asks for each in asked}) == (last, {True})
    assert node.receive(first.entry_id, asked=asked[-1].entry_id) == []


def test_old_commands_are_deleted_with_their_replies(broker: Broker) -> None:
    node, home = broker.node("n1"), broker.home
    first = node.send(Command(name="drain"))
    node.reply(Reply(command_id=first, state=CommandState.DONE))
    for _ in range(COMMANDS_KEPT):
        node.send(Command(name="drain"))
    assert home.command("XLEN", home.keys.commands("n1")) == COMMANDS_KEPT
    assert home.command("HLEN", home.keys.replies("n1")) == COMMANDS_KEPT
    assert node.status(first) is None
    node.reply(Reply(command_id=first, state=CommandState.DONE))
    assert home.command("HLEN", home.keys.replies("n1")) == COMMANDS_KEPT, "a reply without its command is not kept"


def test_a_blocked_supervisor_gets_a_command_at_once(broker: Broker) -> None:
    node = broker.node("n1")
    assert node.receive("0", block_ms=20) == []
    node.send(Command(name="resume"))
    assert [c.name for c in node.receive("0", block_ms=1000)] == ["resume"]


def test_rubbish_in_the_channel_is_skipped(broker: Broker) -> None:
    home, node = broker.home, broker.node("n1")
    for fields in (("x", "y"), ("m", b"\xff"), ("m", "[]")):
        home.command("XADD", home.keys.commands("n1"), "*", *fields)
    home.command("HSET", home.keys.replies("n1"), "1-1", "nonsense", "2-2", b"12 \xff")
    assert node.receive("0") == [] and node.recent() == []
    assert [node.status(name) for name in ("1-1", "2-2", "none", "no id")] == [None] * 4

"""Commands to a node, their outcome, and followed log lines."""

from dalston_queue.broker import Broker
from dalston_queue.broker.commands import Command, Reply
from dalston_queue.broker.types import NodeState


def test_a_command_reaches_the_node_and_its_outcome_comes_back(broker: Broker) -> None:
    broker.registry.beat_node("n1", NodeState.ACTIVE, [])
    dashboard, supervisor = broker.node("n1"), broker.node("n1")
    command_id = dashboard.send(Command(name="drain", arguments={"grace_s": 30}, actor="alice"))
    assert dashboard.outcome(command_id) is None
    (command,) = supervisor.receive("0")
    assert (command.name, command.arguments, command.actor) == ("drain", {"grace_s": 30}, "alice")
    assert command.command_id == command_id and command.at_ms > 0
    assert supervisor.receive(command.command_id) == []
    supervisor.reply(Reply(command_id=command_id, ok=False, message="draining"))
    supervisor.reply(Reply(command_id=command_id, ok=True, message="drained", detail={"tasks": 2}))
    outcome = dashboard.outcome(command_id)
    assert outcome is not None and outcome.ok and outcome.detail == {"tasks": 2}, "the last answer counts"


def test_a_supervisor_that_waits_gets_it_at_once(broker: Broker) -> None:
    broker.registry.beat_node("n1", NodeState.ACTIVE, [])
    node = broker.node("n1")
    assert node.receive("0", block_ms=20) == []
    node.send(Command(name="resume"))
    assert [c.name for c in node.receive("0", block_ms=1000)] == ["resume"]


def test_rubbish_in_the_channel_is_skipped(broker: Broker) -> None:
    broker.registry.beat_node("n1", NodeState.ACTIVE, [])
    home = broker.topology.home
    for fields in (("x", "y"), ("m", b"\xff"), ("m", "[]")):
        home.command("XADD", home.keys.commands("n1"), "*", *fields)
        home.command("XADD", home.keys.replies("n1"), "*", *fields)
        home.command("XADD", home.keys.logs("n1"), "*", *fields)
    node = broker.node("n1")
    assert node.receive("0") == [] and node.outcome("1-1") is None
    assert node.follow("0", block_ms=0) == []


def test_log_lines_are_followed_and_capped(broker: Broker) -> None:
    broker.registry.beat_node("n1", NodeState.ACTIVE, [])
    node = broker.node("n1")
    node.log("e1", ["one", "zwei ü"])
    node.log("e2", [])
    lines = node.follow("0")
    assert [(engine, line) for _, engine, line in lines] == [("e1", "one"), ("e1", "zwei ü")]
    assert node.follow(lines[-1][0], block_ms=0) == []
    home = broker.topology.home
    assert 0 < home.command("TTL", home.keys.logs("n1")) <= 24 * 3600

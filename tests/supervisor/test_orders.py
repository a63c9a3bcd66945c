"""Commands from the dashboard: answered, obeyed once, harmless when given twice, and remembered over a restart."""

from typing import Any

from dalston_queue.broker.commands import Command, Reply
from dalston_queue.broker.types import EngineState, EventKind, NodeState
from tests.supervisor.node import Node, alive
from tests.support import wait_until


def order(node: Node, name: str, **arguments: Any) -> Reply:
    channel = node.broker.node(node.name)
    command_id = channel.send(Command(name=name, arguments=arguments, actor="ada"))
    return wait_until(lambda: channel.outcome(command_id), 10, f"the answer to {name}")


def state(node: Node) -> tuple[NodeState, str]:
    [info] = [info for info in node.broker.registry.nodes() if info.node_id == node.name]
    return info.state, info.info["why"]


def test_drain_stops_engines_survives_a_restart_and_resume_starts_them(node: Node) -> None:
    node.engine(stop_grace=5)
    node.start()
    [engine] = node.ready()
    task = node.submit("slow", seconds=1)
    node.started(task)
    assert order(node, "drain", reason="new driver").ok
    assert node.result(task)
    node.wait_state(EngineState.STOPPED)
    assert not alive(engine.info["pid"])
    assert "already" in order(node, "drain").message
    assert state(node) == (NodeState.DRAINING, "drained by ada: new driver")
    node.stop()
    node.start()
    node.wait_state(EngineState.STOPPED)
    assert order(node, "resume").ok
    node.ready()
    assert state(node)[0] is NodeState.ACTIVE


def test_cordon_keeps_what_runs_and_takes_nothing_new(node: Node) -> None:
    node.engine(capacity=2)
    node.start()
    node.ready()
    running = node.submit("slow", seconds=1.5)
    node.started(running)
    assert order(node, "cordon").ok
    wait_until(lambda: state(node)[0] is NodeState.CORDONED, what="the node cordoned")
    waiting = node.submit("ready")
    assert node.result(running)
    assert node.events(waiting, EventKind.TASK_STARTED) == []
    assert order(node, "uncordon").ok
    assert node.result(waiting)


def test_scaling_and_restarting_touch_only_what_they_name(node: Node) -> None:
    node.engine("one")
    node.engine("two")
    node.start()
    before = {engine.info["slot"]: engine.info["pid"] for engine in node.ready(2)}
    assert order(node, "scale", engine="one", replicas=2).message == "one: 1 -> 2"
    after = {engine.info["slot"]: engine.info["pid"] for engine in node.ready(3)}
    assert before.items() <= after.items()
    assert order(node, "scale", engine="one", replicas=2).message == "one: already 2"
    assert order(node, "rolling_restart", engine="one").message == "restarting 2 one after the other"
    rolled = wait_until(lambda: _all_new(node, after, ["one.0", "one.1"]), 20, "both restarted")
    assert rolled["two.0"] == before["two.0"]
    assert order(node, "restart", engine="two").ok
    wait_until(lambda: _all_new(node, rolled, ["two.0"]), 20, "two restarted")
    assert order(node, "scale", engine="one", replicas=1).message == "one: 2 -> 1"
    left = {engine.info["slot"] for engine in node.ready(2)}
    assert left == {"one.0", "two.0"}


def _all_new(node: Node, before: dict[str, int], slots: list[str]) -> dict[str, int]:
    now = {e.info["slot"]: e.info["pid"] for e in node.engines() if e.state is EngineState.READY}
    return now if all(now.get(slot, before[slot]) != before[slot] for slot in slots) else {}


def test_what_cannot_be_done_is_refused_in_words_and_logs_can_be_read(node: Node) -> None:
    node.engine()
    node.start()
    node.ready()
    for name, arguments, why in (
        ("dance", {}, "unknown command 'dance'"),
        ("restart", {"engine": "nobody"}, "no engine 'nobody'"),
        ("restart", {}, "needs 'engine'"),
        ("scale", {"engine": "fix", "replicas": "many"}, "must be a number"),
        ("release_gpu", {"gpu": "GPU-a"}, "not quarantined"),
    ):
        reply = order(node, name, **arguments)
        assert not reply.ok
        assert why in reply.message
    channel = node.broker.node(node.name)
    assert order(node, "follow_logs", engine="fix", seconds=20).ok
    node.result(node.submit("spam", mb=1))
    lines = wait_until(lambda: [line for _, _, line in channel.follow(after="0", block_ms=1, count=1000)][-1:], 10)
    assert lines
    assert any("starts" in line for _, _, line in channel.follow(after="0", block_ms=1, count=1000))

"""/nodes: nodes and engines, commands from request to reply, logs."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from dalston_queue.broker import Broker
from dalston_queue.broker.nodes.commands import Command, CommandState, Reply
from dalston_queue.broker.nodes.registry import EngineBeat, NodeInfo
from dalston_queue.broker.protocol.types import EngineState, NodeState
from dalston_queue.models import OperatorAction
from tests.api.conftest import Api


@pytest.fixture
def operator(token_for: Callable[..., str], broker: Broker) -> Api:
    engine = EngineBeat(engine_id="gpu-01.demo.0.b", state=EngineState.READY, queues=("echo",), capacity=4)
    broker.registry.beat_node("gpu-01", NodeState.ACTIVE, [engine], {"version": "1"})
    return Api(token_for("operate", "read"))


def reply(broker: Broker, *, ok: bool = True) -> Command:
    """Plays the supervisor: replies to the next command."""
    channel = broker.node("gpu-01")
    [command] = channel.receive("0", block_ms=5000)
    state = CommandState.DONE if ok else CommandState.FAILED
    channel.reply(Reply(command_id=command.command_id, state=state, message="drained" if ok else "no such engine"))
    return command


def test_nodes_are_listed_with_their_engines(operator: Api, broker: Broker) -> None:
    broker.registry.beat_engine(EngineBeat(engine_id="alone", state=EngineState.LOADING))
    without, node = operator.get("/nodes").json()
    assert (node["node_id"], node["state"], node["info"]) == ("gpu-01", "active", {"version": "1"})
    assert [engine["engine_id"] for engine in node["engines"]] == ["gpu-01.demo.0.b"]
    assert (without["node_id"], without["state"], without["engines"][0]["state"]) == ("", "", "loading")


def test_a_token_of_one_project_sees_no_tasks_of_other_projects(
    operator: Api, broker: Broker, token_for: Callable[..., str]
) -> None:
    info = {"version": "2", "tasks": {"t1": "of whom?"}, "owner": "a token"}
    engine = EngineBeat(engine_id="gpu-01.demo.0.b", state=EngineState.READY, queues=("echo",), info=info)
    broker.registry.beat_node("gpu-01", NodeState.ACTIVE, [engine], {})
    reader = Api(token_for("read", "submit"))
    [node] = reader.get("/nodes").json()
    assert node["engines"][0]["info"] == {"version": "2"}
    assert operator.get("/nodes").json()[0]["engines"][0]["info"] == info
    refused = reader.get("/nodes/gpu-01/engines/demo.0/logs")
    assert (refused.status_code, refused.json()["code"]) == (403, "scope_missing")
    assert "every project" in refused.json()["detail"]
    assert not broker.node("gpu-01").receive("0"), "the node was not even asked"


def test_a_command_is_requested_then_done(operator: Api, broker: Broker) -> None:
    sent = operator.post("/nodes/gpu-01/commands", {"command": "drain", "reason": "new driver"}).json()
    assert sent["state"] == "requested"
    command = reply(broker)
    assert (command.name, command.actor, command.arguments) == ("drain", "token test", {"reason": "new driver"})
    found = operator.get(f"/nodes/gpu-01/commands/{sent['command_id']}").json()
    assert (found["command_id"], found["command"], found["state"]) == (sent["command_id"], "drain", "done")
    assert found["message"] == "drained"
    assert found["requested_at"] <= found["taken_at"] <= found["ended_at"]
    action = OperatorAction.objects.get()
    assert (action.action, action.target, action.reason) == ("node.drain", "gpu-01", "new driver")


def test_a_wait_ends_with_the_reply_also_with_a_failure(operator: Api, broker: Broker) -> None:
    supervisor = threading.Thread(target=reply, args=(broker,), kwargs={"ok": False})
    supervisor.start()
    body = {"command": "scale", "engine": "nosuch", "replicas": 2}
    answer = operator.post("/nodes/gpu-01/commands?wait=10", body).json()
    supervisor.join()
    assert (answer["state"], answer["message"]) == ("failed", "no such engine")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "command"),
        ({"command": "explode"}, "command"),
        ({"command": "restart"}, "needs an engine"),
        ({"command": "drain", "engine": "demo"}, "takes no engine"),
        ({"command": "scale", "engine": "demo"}, "needs replicas"),
        ({"command": "scale", "engine": "demo", "replicas": -1}, "replicas"),
        ({"command": "release_gpu"}, "needs a gpu"),
        ({"command": "drain", "gpu": "GPU-a"}, "takes no gpu"),
    ],
)
def test_an_invalid_command_is_not_sent(operator: Api, broker: Broker, body: object, message: str) -> None:
    answer = operator.post("/nodes/gpu-01/commands", body)
    assert answer.status_code == 422
    assert message in answer.json()["detail"]
    assert broker.node("gpu-01").receive("0") == []


def test_a_quarantined_gpu_can_be_released(operator: Api, broker: Broker) -> None:
    operator.post("/nodes/gpu-01/commands", {"command": "release_gpu", "gpu": "GPU-a"})
    command = reply(broker)
    assert (command.name, command.arguments) == ("release_gpu", {"gpu": "GPU-a"})


def test_an_unknown_node_is_404(operator: Api) -> None:
    assert operator.post("/nodes/nosuch/commands", {"command": "drain"}).status_code == 404
    assert operator.get("/nodes/gpu-01/commands/nosuch").status_code == 404


def test_a_command_with_an_id_is_sent_once(operator: Api, broker: Broker) -> None:
    body = {"command": "drain", "command_id": "ticket-17"}
    first, second = (operator.post("/nodes/gpu-01/commands", body).json() for _ in range(2))
    assert first == second
    assert len(broker.node("gpu-01").receive("0")) == 1
    other = operator.post("/nodes/gpu-01/commands", {**body, "command": "resume"})
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")


def send_logs(broker: Broker, seen: list[Command]) -> None:
    """Plays the supervisor: sends a log."""
    [command] = broker.node("gpu-01").receive("0", block_ms=5000)
    seen.append(command)
    line = (7, "2026-01-02T03:04:05.678Z <b>hello</b>")
    broker.logs("gpu-01").write("demo.0", [line], command.command_id)
    broker.node("gpu-01").reply(Reply(command_id=command.command_id, state=CommandState.DONE))


def test_the_log_of_an_engine_is_read_from_its_node(operator: Api, broker: Broker) -> None:
    seen: list[Command] = []
    supervisor = threading.Thread(target=send_logs, args=(broker, seen))
    supervisor.start()
    answer = operator.get("/nodes/gpu-01/engines/demo.0/logs?lines=5&since=2026-01-02T00:00:00Z")
    supervisor.join()
    assert answer.json()["lines"] == [{"at": "2026-01-02T03:04:05.678000Z", "text": "<b>hello</b>"}]
    assert seen[0].arguments == {"engine": "demo.0", "lines": 5, "since_ms": 1767312000000}


def test_a_time_without_an_offset_is_refused(operator: Api) -> None:
    answer = operator.get("/nodes/gpu-01/engines/demo.0/logs?since=2026-01-02T00:00:00")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


def test_a_node_that_is_away_is_503_and_an_engine_it_does_not_have_404(operator: Api, broker: Broker) -> None:
    away = operator.get("/nodes/gpu-01/engines/demo.0/logs")
    assert (away.status_code, away.json()["code"]) == (503, "node_unreachable")
    broker.registry.forget(node_ids=["gpu-01"])
    assert operator.get("/nodes/gpu-01/engines/demo.0/logs").status_code == 404


def test_only_a_dead_node_is_forgotten(operator: Api, broker: Broker) -> None:
    alive = operator.call("DELETE", "/nodes/gpu-01?reason=sold")
    assert (alive.status_code, alive.json()["code"]) == (409, "state_conflict")
    broker.registry.condemn_node(NodeInfo(node_id="gpu-01", state=NodeState.ACTIVE))
    answer = operator.call("DELETE", "/nodes/gpu-01?reason=sold")
    assert answer.json() == {"node_id": "gpu-01", "engines": ["gpu-01.demo.0.b"]}
    assert not broker.registry.nodes()
    assert [row.reason for row in OperatorAction.objects.filter(action="node.forget")] == ["sold", "sold"]
    assert operator.call("DELETE", "/nodes/gpu-01").status_code == 404

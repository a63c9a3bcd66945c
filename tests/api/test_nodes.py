"""/nodes: what is there, and orders from request to answer."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from dalston_queue.broker import Broker
from dalston_queue.broker.commands import Command, Reply
from dalston_queue.broker.registry import EngineBeat
from dalston_queue.broker.types import EngineState, NodeState
from dalston_queue.models import OperatorAction
from tests.api.conftest import Api


@pytest.fixture
def operator(token_for: Callable[..., str], broker: Broker) -> Api:
    engine = EngineBeat(engine_id="gpu-01.demo.0.b", state=EngineState.READY, queues=("echo",), capacity=4)
    broker.registry.beat_node("gpu-01", NodeState.ACTIVE, [engine], {"version": "1"})
    return Api(token_for("operate", "read"))


def obey(broker: Broker, *, ok: bool = True) -> Command:
    """What a supervisor does with its next command."""
    channel = broker.node("gpu-01")
    [command] = channel.receive("0", block_ms=5000)
    channel.reply(Reply(command_id=command.command_id, ok=ok, message="draining" if ok else "no such engine"))
    return command


def test_nodes_are_listed_with_their_engines(operator: Api, broker: Broker) -> None:
    broker.registry.beat_engine(EngineBeat(engine_id="alone", state=EngineState.LOADING))
    without, node = operator.get("/nodes").json()
    assert (node["node_id"], node["state"], node["info"]) == ("gpu-01", "active", {"version": "1"})
    assert [engine["engine_id"] for engine in node["engines"]] == ["gpu-01.demo.0.b"]
    assert (without["node_id"], without["state"], without["engines"][0]["state"]) == ("", "", "loading")


def test_an_order_is_requested_then_done(operator: Api, broker: Broker) -> None:
    sent = operator.post("/nodes/gpu-01/commands", {"order": "drain", "reason": "new driver"}).json()
    assert sent["state"] == "requested"
    command = obey(broker)
    assert (command.name, command.actor, command.arguments) == ("drain", "token test", {"reason": "new driver"})
    assert operator.get(f"/nodes/gpu-01/commands/{sent['command_id']}").json() == {
        "command_id": sent["command_id"],
        "state": "done",
        "message": "draining",
    }
    action = OperatorAction.objects.get()
    assert (action.action, action.target, action.reason) == ("node.drain", "gpu-01", "new driver")


def test_waiting_brings_the_answer_at_once_also_a_refusal(operator: Api, broker: Broker) -> None:
    supervisor = threading.Thread(target=obey, args=(broker,), kwargs={"ok": False})
    supervisor.start()
    body = {"order": "scale", "engine": "nosuch", "replicas": 2}
    answer = operator.post("/nodes/gpu-01/commands?wait=10", body).json()
    supervisor.join()
    assert (answer["state"], answer["message"]) == ("refused", "no such engine")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "order"),
        ({"order": "explode"}, "order"),
        ({"order": "restart"}, "needs an engine"),
        ({"order": "drain", "engine": "demo"}, "takes no engine"),
        ({"order": "scale", "engine": "demo"}, "needs replicas"),
        ({"order": "scale", "engine": "demo", "replicas": -1}, "replicas"),
        ({"order": "release_gpu"}, "needs a gpu"),
        ({"order": "drain", "gpu": "GPU-a"}, "takes no gpu"),
    ],
)
def test_an_order_that_makes_no_sense_is_not_sent(operator: Api, broker: Broker, body: object, said: str) -> None:
    answer = operator.post("/nodes/gpu-01/commands", body)
    assert answer.status_code == 422
    assert said in answer.json()["detail"]
    assert broker.node("gpu-01").receive("0") == []


def test_a_quarantined_gpu_can_be_released(operator: Api, broker: Broker) -> None:
    operator.post("/nodes/gpu-01/commands", {"order": "release_gpu", "gpu": "GPU-a"})
    command = obey(broker)
    assert (command.name, command.arguments) == ("release_gpu", {"gpu": "GPU-a"})


def test_an_unknown_node_is_404(operator: Api) -> None:
    assert operator.post("/nodes/nosuch/commands", {"order": "drain"}).status_code == 404

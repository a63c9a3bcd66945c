"""/nodes: who works where, and orders to a node's supervisor. An order shows requested, then done or refused."""

from __future__ import annotations

import time
from typing import Annotated

from django.http import HttpRequest
from ninja import Body, Path, Query, Router

from dalston_queue.api.auth import needs
from dalston_queue.api.command_in import CommandIn
from dalston_queue.api.node_out import CommandOut, NodeOut, command_out, node_out
from dalston_queue.api.principal import principal_of
from dalston_queue.api.problem_out import answers
from dalston_queue.api.problems import not_found
from dalston_queue.audit import audited
from dalston_queue.broker.commands import Command, NodeChannel, Reply
from dalston_queue.models.api_token import Scope
from dalston_queue.redis import get_broker

router = Router(tags=["nodes"])

LOOK_EVERY_S = 0.1
NodeId = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,100}$")]
CommandId = Annotated[str, Path(pattern=r"^[0-9]{1,20}-[0-9]{1,20}$")]
Seconds = Annotated[float, Query(ge=0, le=20, description="Seconds to wait for the node's answer.")]


@router.get("/nodes", auth=needs(Scope.READ), response=answers({200: list[NodeOut]}))
def list_nodes(request: HttpRequest) -> list[NodeOut]:
    """Every node with its engines; engines that run without a supervisor come under their own node id."""
    registry = get_broker().registry
    nodes, engines = {node.node_id: node for node in registry.nodes()}, registry.engines()
    names = sorted({*nodes, *(engine.node_id for engine in engines)})
    return [node_out(nodes.get(name), name, [each for each in engines if each.node_id == name]) for name in names]


@router.post("/nodes/{node_id}/commands", auth=needs(Scope.OPERATE), response=answers({200: CommandOut}, 400, 404))
def command_node(
    request: HttpRequest, node_id: NodeId, body: Annotated[CommandIn, Body()], wait: Seconds = 0
) -> CommandOut:
    """Tell a node to drain, resume, cordon, uncordon, restart, rolling_restart, scale, release_gpu. Safe to repeat."""
    principal, broker = principal_of(request), get_broker()
    if node_id not in {node.node_id for node in broker.registry.nodes()}:
        raise not_found(f"node {node_id}")
    channel, arguments = broker.node(node_id), body.arguments()
    with audited(f"node.{body.order}", node_id, reason=body.reason, before=arguments, **principal.signature()) as row:
        command_id = channel.send(Command(name=body.order, arguments=arguments, actor=principal.name))
        reply = _answer(channel, command_id, wait)
        row.after = {"command_id": command_id, "message": reply.message if reply else None}
    return command_out(command_id, reply)


@router.get("/nodes/{node_id}/commands/{command_id}", auth=needs(Scope.OPERATE), response=answers({200: CommandOut}))
def read_command(request: HttpRequest, node_id: NodeId, command_id: CommandId, wait: Seconds = 0) -> CommandOut:
    """What became of an order."""
    return command_out(command_id, _answer(get_broker().node(node_id), command_id, wait))


def _answer(channel: NodeChannel, command_id: str, wait: float) -> Reply | None:
    end = time.monotonic() + wait
    while (reply := channel.outcome(command_id)) is None and time.monotonic() < end:
        time.sleep(LOOK_EVERY_S)
    return reply

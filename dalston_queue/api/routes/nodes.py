"""/nodes and /workers: nodes, their engines and logs, commands to a node, drain and resume of a worker over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from django.http import HttpRequest
from ninja import Body, Path, Query, Router

from dalston_queue.api.auth.bearer import needs, sees_all_projects
from dalston_queue.api.auth.principal import principal_of
from dalston_queue.api.errors.problems import ApiProblem, Code, answers, not_found
from dalston_queue.api.schemas.base import Instant, Reason, ReasonIn
from dalston_queue.api.schemas.nodes import (
    CommandIn,
    CommandOut,
    ForgottenOut,
    LogsOut,
    NodeOut,
    command_out,
    logs_out,
    node_out,
)
from dalston_queue.api.schemas.workers import WorkerDrainOut, WorkerId
from dalston_queue.api.subscriptions.waiting import WAIT_SLOTS
from dalston_queue.audit.record import audited
from dalston_queue.broker.engine.remote import RemoteWorker
from dalston_queue.broker.errors import Invalid
from dalston_queue.broker.nodes.commands import Command, CommandState, CommandStatus, NodeChannel
from dalston_queue.broker.protocol.keys import COMMAND_ID, ENGINE_ID, NODE_ID
from dalston_queue.database import before_wait
from dalston_queue.jobs.operator.forget_node import forget_node
from dalston_queue.models.accounts import Scope
from dalston_queue.redis import get_broker

router = Router(tags=["nodes"])

NodeId = Annotated[str, Path(pattern=f"^{NODE_ID}$")]
CommandId = Annotated[str, Path(pattern=f"^{COMMAND_ID}$")]
EngineName = Annotated[str, Path(pattern=f"^{ENGINE_ID}$", description="A slot (`demo.0`) or an engine id.")]
Seconds = Annotated[float, Query(ge=0, le=20, description="Seconds to wait until the command is done or has failed.")]
Lines = Annotated[int, Query(ge=1, le=2000, description="How many at most, the last ones.")]
Moment = Annotated[Instant | None, Query(description="Only lines of this span of time.")]


@router.get("/nodes", auth=needs(Scope.READ), response=answers({200: list[NodeOut]}))
def list_nodes(request: HttpRequest) -> list[NodeOut]:
    """Every node with its engines; engines that run without a supervisor come under their own node id.

    Tasks and owners of engines are only shown to principals that see all projects.
    """
    everything = principal_of(request).only_project is None
    registry = get_broker().registry
    nodes, engines = {node.node_id: node for node in registry.nodes()}, registry.engines()
    names = sorted({*nodes, *(engine.node_id for engine in engines)})
    return [
        node_out(nodes.get(name), name, [each for each in engines if each.node_id == name], everything=everything)
        for name in names
    ]


@router.post("/nodes/{node_id}/commands", auth=needs(Scope.OPERATE), response=answers({200: CommandOut}, 400, 404, 409))
def command_node(
    request: HttpRequest, node_id: NodeId, body: Annotated[CommandIn, Body()], wait: Seconds = 0
) -> CommandOut:
    """Send a node a command: drain, resume, cordon, restart and so on. Safe to repeat."""
    principal = principal_of(request)
    _check_node(node_id)
    channel, arguments = get_broker().node(node_id), body.arguments()
    command = Command(name=body.command, arguments=arguments, actor=principal.name, command_id=body.command_id or "")
    with audited(f"node.{body.command}", node_id, reason=body.reason, before=arguments, **principal.signature()) as row:
        try:
            command_id = channel.send(command)
        except Invalid as error:
            raise ApiProblem(409, Code.IDEMPOTENCY_CONFLICT, f"{error}.") from error
        status = _wait(channel, command_id, wait, principal.holder)
        row.after = {"command_id": command_id, "message": status.message if status else None}
    if status is None:
        raise not_found(f"command {command_id}")  # the node left meanwhile, with all its commands
    return command_out(status)


@router.get(
    "/nodes/{node_id}/commands/{command_id}", auth=sees_all_projects(), response=answers({200: CommandOut}, 404)
)
def read_command(request: HttpRequest, node_id: NodeId, command_id: CommandId, wait: Seconds = 0) -> CommandOut:
    """The state of a command. Kept for a day, while its node is registered."""
    status = _wait(get_broker().node(node_id), command_id, wait, principal_of(request).holder)
    if status is None:
        raise not_found(f"command {command_id}")
    return command_out(status)


@router.delete("/nodes/{node_id}", auth=needs(Scope.OPERATE), response=answers({200: ForgottenOut}, 404, 409))
def delete_node(request: HttpRequest, node_id: NodeId, reason: Reason = "") -> ForgottenOut:
    """Forget a dead node and its engines. Its next heartbeat registers it again."""
    _check_node(node_id)
    with audited("node.forget", node_id, reason=reason, **principal_of(request).signature()) as row:
        outcome = forget_node(get_broker(), node_id)
        row.after = {"forgotten": outcome.done, "engines": list(outcome.engines)}
    if not outcome.done:
        how = f"is {outcome.state}, not dead" if outcome.found else "left meanwhile"
        raise ApiProblem(409, Code.STATE_CONFLICT, f"Node {node_id} {how}.")
    return ForgottenOut(node_id=node_id, engines=list(outcome.engines))


@router.get("/nodes/{node_id}/engines/{engine}/logs", auth=needs(Scope.READ), response=answers({200: LogsOut}, 404))
def read_logs(
    request: HttpRequest,
    node_id: NodeId,
    engine: EngineName,
    lines: Lines = 200,
    since: Moment = None,
    until: Moment = None,
) -> LogsOut:
    """The last lines of an engine's log, read from its node; by engine id also of a process that has ended.

    An engine works for all projects and writes one log: a token that sees only its own project gets 403.
    """
    principal = principal_of(request)
    _check_node(node_id)
    if principal.only_project is not None:
        detail = f"An engine's log is about every project: it needs the scope `operate`, which {principal.name} lacks."
        raise ApiProblem(403, Code.SCOPE_MISSING, detail)
    before_wait()
    tail = (
        get_broker()
        .logs(node_id)
        .tail(engine, lines=lines, since_ms=_ms(since), until_ms=_ms(until), actor=principal.name)
    )
    if tail.complete:
        return logs_out(node_id, engine, tail.lines)
    if tail.status is not None and tail.status.state is CommandState.FAILED:
        raise ApiProblem(404, Code.NOT_FOUND, f"{node_id}: {tail.status.message}.")
    raise ApiProblem(503, Code.NODE_UNREACHABLE, f"{node_id} does not answer.", headers={"Retry-After": "5"})


def _wait(channel: NodeChannel, command_id: str, seconds: float, holder: str) -> CommandStatus | None:
    before_wait()
    with WAIT_SLOTS.take(holder) as free:
        return channel.wait(command_id, seconds if free else 0)


def _check_node(node_id: str) -> None:
    if node_id not in {node.node_id for node in get_broker().registry.nodes()}:
        raise not_found(f"node {node_id}")


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else max(0, int(moment.timestamp() * 1000))


@router.post(
    "/workers/{worker_id}/drain", auth=needs(Scope.OPERATE), response=answers({200: WorkerDrainOut}, 400, 404, 409)
)
def drain_worker(request: HttpRequest, worker_id: WorkerId, body: Annotated[ReasonIn, Body()]) -> WorkerDrainOut:
    """Deliver no more tasks to a worker; it finishes those it has and leaves. Safe to repeat."""
    principal, worker = principal_of(request), _find(worker_id)
    if worker.is_dead:
        raise ApiProblem(409, Code.STATE_CONFLICT, f"{worker_id} was judged dead: it has no tasks and gets none.")
    if worker.should_drain:
        return WorkerDrainOut(worker_id=worker_id, should_drain=True, changed=False)
    with audited("worker.drain", worker_id, reason=body.reason, **principal.signature()) as row:
        row.after = {"should_drain": worker.drain(principal.name, body.reason)}
    if not worker.should_drain:
        raise not_found(f"worker {worker_id}")
    return WorkerDrainOut(worker_id=worker_id, should_drain=True, changed=True)


@router.post(
    "/workers/{worker_id}/resume", auth=needs(Scope.OPERATE), response=answers({200: WorkerDrainOut}, 400, 404)
)
def resume_worker(request: HttpRequest, worker_id: WorkerId, body: Annotated[ReasonIn, Body()]) -> WorkerDrainOut:
    """Deliver tasks to a worker again, if it has not left. Safe to repeat."""
    principal, worker = principal_of(request), _find(worker_id)
    if not worker.should_drain:
        return WorkerDrainOut(worker_id=worker_id, should_drain=False, changed=False)
    with audited("worker.resume", worker_id, reason=body.reason, **principal.signature()) as row:
        worker.undrain()
        row.after = {"should_drain": False}
    return WorkerDrainOut(worker_id=worker_id, should_drain=False, changed=True)


def _find(worker_id: str) -> RemoteWorker:
    worker = RemoteWorker.find(get_broker(), worker_id)
    if worker is None:
        raise not_found(f"worker {worker_id}")
    return worker

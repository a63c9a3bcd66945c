"""Commands to nodes and to workers over HTTP: reads the form, sends the command once, writes the audit row.

A node replies to a command, and its page shows the replies. A worker over HTTP has no node: it learns from the response
to its next call that it should drain.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from dalston_queue.accounts.roles import person
from dalston_queue.audit.record import audited
from dalston_queue.broker.engine.remote import NODE, RemoteWorker
from dalston_queue.broker.errors import BrokerError, Invalid
from dalston_queue.broker.nodes.commands import MAX_REPLICAS, Command, NodeCommand
from dalston_queue.broker.protocol.keys import COMMAND_ID
from dalston_queue.broker.protocol.types import NodeState
from dalston_queue.dashboard.nodes.cards import NodeCard, cards
from dalston_queue.dashboard.parts.request import cleaned, reason_of
from dalston_queue.dashboard.security.roles import operator_action
from dalston_queue.jobs.operator.forget_node import forget_node
from dalston_queue.redis import get_broker


@operator_action
def command_node(request: HttpRequest, node_id: str) -> HttpResponse:
    try:
        node = _find(node_id)
        if not node.supervised:
            messages.error(request, f"Nothing was requested: {node_id} has no supervisor that would answer.")
        elif isinstance(command := read_command(request.POST.dict(), node), str):
            messages.error(request, command)
        else:
            messages.info(request, _send(request, node_id, command))
    except Invalid as error:
        messages.error(request, f"Nothing was requested: {error}.")
    except BrokerError:
        messages.error(request, "Nothing was requested: Redis does not answer.")
    return redirect("dashboard:node", node_id=node_id)


@operator_action
def forget(request: HttpRequest, node_id: str) -> HttpResponse:
    """A node that sends heartbeats again is back by itself."""
    reason = reason_of(request)
    try:
        node = _find(node_id)
        if node.state != NodeState.DEAD:
            messages.error(request, f"Nothing was changed: {node_id} is {node.state or 'not supervised'}, not dead.")
        elif not reason:
            messages.error(request, "Nothing was changed: a reason is needed to forget a node.")
        else:
            with audited("node.forget", node_id, reason=reason, **person(request)) as row:
                outcome = forget_node(get_broker(), node_id)
                row.after = {"forgotten": outcome.done, "engines": list(outcome.engines)}
            word = (
                "is forgotten. If it sends heartbeats again, it is back"
                if outcome.done
                else "is back, or left meanwhile"
            )
            messages.info(request, f"{node_id} {word}.")
            return redirect("dashboard:nodes")
    except BrokerError:
        messages.error(request, "Nothing was changed: Redis does not answer.")
    return redirect("dashboard:node", node_id=node_id)


def _send(request: HttpRequest, node_id: str, form: CommandForm) -> str:
    channel, who = get_broker().node(node_id), person(request)
    words = form.name.replace("_", " ")
    if channel.status(form.command_id) is not None:
        return f"That {words} was requested already: the table of commands shows its state."
    with audited(f"node.{form.name}", node_id, reason=form.reason, before=form.arguments, **who) as row:
        command = Command(name=form.name, arguments=form.arguments, actor=who["actor"], command_id=form.command_id)
        row.after = {"command_id": channel.send(command)}
    return f"Requested: {words}. The table of commands shows when the node takes it and how it ends."


def _find(node_id: str) -> NodeCard:
    """Fresh from the registry: a command must not be judged by a page that is a moment old."""
    registry = get_broker().registry
    found = cards(registry.nodes(), registry.engines(), timezone.now())
    node = next((node for node in found if node.id == node_id), None)
    if node is None:
        raise Http404(f"there is no node {node_id}")
    return node


_NEEDS_REASON = {NodeCommand.DRAIN, NodeCommand.CORDON, NodeCommand.RESTART, NodeCommand.ROLLING_RESTART}
"""They release tasks or keep tasks away: the audit trail says why."""


@dataclass(frozen=True, slots=True)
class CommandForm:
    name: str
    arguments: dict[str, Any]
    reason: str
    command_id: str


def read_command(form: Mapping[str, str], node: NodeCard) -> CommandForm | str:
    """The command, or what is wrong with the form."""
    name, command_id = form.get("command", ""), form.get("command_id", "")
    if name not in set(NodeCommand) or not re.fullmatch(COMMAND_ID, command_id):
        return "That is no command for a node. Reload the page and try again."
    reason = cleaned(form.get("reason", ""))
    arguments: dict[str, Any] = {"reason": reason} if reason else {}
    wrong = _read_target(name, form, node, arguments)
    if wrong:
        return wrong
    if not reason and (name in _NEEDS_REASON or _shrinks(name, arguments, node)):
        return f"Nothing was requested: a reason is needed, since {name.replace('_', ' ')} takes work away."
    return CommandForm(name, arguments, reason, command_id)


def _read_target(name: str, form: Mapping[str, str], node: NodeCard, arguments: dict[str, Any]) -> str:
    if name in {"restart", "rolling_restart", "scale"}:
        engine = form.get("engine", "")
        if name == "rolling_restart":
            engine = _kind_of(engine, node)
        slots = {each.slot for each in node.engines if each.kind}
        if engine not in node.kinds and not (name == "restart" and engine in slots):
            return f"Nothing was requested: there is no engine {engine!r} on {node.id}."
        arguments["engine"] = engine
    if name == "scale":
        count = form.get("replicas", "")
        if not (count.isascii() and count.isdigit()) or len(count) > 9 or int(count) > MAX_REPLICAS:
            return f"Nothing was requested: processes must be a number from 0 to {MAX_REPLICAS}."
        arguments["replicas"] = int(count)
    if name == "release_gpu":
        arguments["gpu"] = form.get("gpu", "")
        if arguments["gpu"] not in {gpu.uuid for gpu in node.gpus}:
            return f"Nothing was requested: {node.id} has no such GPU."
    return ""


def _kind_of(engine: str, node: NodeCard) -> str:
    """A rolling restart is of all processes of an engine: a single one names its kind."""
    return next((each.kind for each in node.engines if each.slot == engine and each.kind), engine)


def _shrinks(name: str, arguments: dict[str, Any], node: NodeCard) -> bool:
    return name == "scale" and arguments["replicas"] < node.kinds[arguments["engine"]]


Result = tuple[bool, str]
"""Whether something was changed, and the message for the operator."""


@operator_action
def command_worker(request: HttpRequest, worker_id: str, verb: str) -> HttpResponse:
    try:
        worker = RemoteWorker.find(get_broker(), worker_id)
        if worker is None:
            changed, message = False, f"Nothing was changed: {worker_id} has left."
        else:
            changed, message = (_drain if verb == "drain" else _resume)(request, worker)
    except BrokerError:
        changed, message = False, "Nothing was changed: Redis does not answer."
    (messages.success if changed else messages.error)(request, message)
    return redirect("dashboard:node", node_id=NODE)


def _drain(request: HttpRequest, worker: RemoteWorker) -> Result:
    worker_id, reason, who = worker.engine.engine_id, reason_of(request), person(request)
    if worker.is_dead:
        return False, f"Nothing was changed: {worker_id} was judged dead."
    if not reason:
        return False, "Nothing was changed: a reason is needed to drain a worker."
    if worker.should_drain:
        return False, f"{worker_id} is draining already."
    with audited("worker.drain", worker_id, reason=reason, **who) as row:
        row.after = {"should_drain": worker.drain(who["actor"], reason)}
    if not worker.should_drain:
        return False, f"Nothing was changed: {worker_id} has left."
    return True, f"{worker_id} gets no new task, and learns with its next call that it should finish and leave."


def _resume(request: HttpRequest, worker: RemoteWorker) -> Result:
    worker_id = worker.engine.engine_id
    if not worker.should_drain:
        return False, f"Nothing was changed: {worker_id} is not draining."
    with audited("worker.resume", worker_id, reason=reason_of(request), **person(request)) as row:
        worker.undrain()
        row.after = {"should_drain": False}
    return True, f"{worker_id} gets tasks again, if it has not left."

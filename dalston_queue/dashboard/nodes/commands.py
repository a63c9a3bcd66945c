"""The buttons of a node's page. Each asks once, whoever presses how often; the page shows what becomes of it."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_POST

from dalston_queue.accounts.roles import person
from dalston_queue.audit.record import audited
from dalston_queue.broker.errors import BrokerError, Invalid
from dalston_queue.broker.nodes.commands import Command
from dalston_queue.broker.protocol.types import NodeState
from dalston_queue.dashboard.nodes.cards import NodeCard, cards
from dalston_queue.dashboard.nodes.order import NodeOrder, read_order
from dalston_queue.dashboard.parts.reason import reason_of
from dalston_queue.dashboard.security.roles import operator_required
from dalston_queue.jobs.operator.forget_node import forget_node
from dalston_queue.redis import get_broker


@require_POST
@operator_required
def command_node(request: HttpRequest, node_id: str) -> HttpResponse:
    try:
        node = _find(node_id)
        if not node.supervised:
            messages.error(request, f"Nothing was requested: nobody on {node_id} would answer.")
        elif isinstance(order := read_order(request.POST.dict(), node), str):
            messages.error(request, order)
        else:
            messages.info(request, _send(request, node_id, order))
    except Invalid as error:
        messages.error(request, f"Nothing was requested: {error}.")
    except BrokerError:
        messages.error(request, "Nothing was requested: Redis does not answer.")
    return redirect("dashboard:node", node_id=node_id)


@require_POST
@operator_required
def forget(request: HttpRequest, node_id: str) -> HttpResponse:
    """One that beats again is back by itself."""
    reason = reason_of(request)
    try:
        node = _find(node_id)
        if node.state != NodeState.DEAD:
            messages.error(request, f"Nothing was changed: {node_id} is {node.state or 'alone'}, not dead.")
        elif not reason:
            messages.error(request, "Nothing was changed: say why the node is forgotten.")
        else:
            with audited("node.forget", node_id, reason=reason, **person(request)) as row:
                outcome = forget_node(get_broker(), node_id)
                row.after = {"forgotten": outcome.done, "engines": list(outcome.engines)}
            word = "is forgotten. Should it beat again, it is back" if outcome.done else "is back, or left meanwhile"
            messages.info(request, f"{node_id} {word}.")
            return redirect("dashboard:nodes")
    except BrokerError:
        messages.error(request, "Nothing was changed: Redis does not answer.")
    return redirect("dashboard:node", node_id=node_id)


def _send(request: HttpRequest, node_id: str, order: NodeOrder) -> str:
    channel, who = get_broker().node(node_id), person(request)
    words = order.name.replace("_", " ")
    if channel.status(order.command_id) is not None:
        return f"That {words} was requested already: see below what became of it."
    with audited(f"node.{order.name}", node_id, reason=order.reason, before=order.arguments, **who) as row:
        command = Command(name=order.name, arguments=order.arguments, actor=who["actor"], command_id=order.command_id)
        row.after = {"command_id": channel.send(command)}
    return f"Requested: {words}. Below it shows when the node takes it, and how it ends."


def _find(node_id: str) -> NodeCard:
    """Fresh from the registry: an order must not be judged by a page that is a moment old."""
    registry = get_broker().registry
    found = cards(registry.nodes(), registry.engines(), timezone.now())
    node = next((node for node in found if node.id == node_id), None)
    if node is None:
        raise Http404(f"there is no node {node_id}")
    return node

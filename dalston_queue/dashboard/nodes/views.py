"""The page of one node with its engines, GPUs, logs and commands."""

from __future__ import annotations

import secrets

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from dalston_queue.accounts.roles import may_operate
from dalston_queue.broker.nodes.commands import NodeCommand
from dalston_queue.dashboard.live.fragments import by_name
from dalston_queue.dashboard.nodes.read import NodeView, read_node, worker_of
from dalston_queue.dashboard.nodes.render import fragments_of
from dalston_queue.dashboard.security.roles import page_view


@page_view
def node(request: HttpRequest, node_id: str) -> HttpResponse:
    view, worker_id = read_node(node_id), worker_of(request.GET)
    if view is None:
        raise Http404(f"there is no node {node_id}")
    context = {
        **by_name(fragments_of(view, worker_id, may_operate(request.user))),
        "view": view,
        "card": view.card,
        "worker_id": worker_id,
        "worker_slot": _slot(view, worker_id),
        # A form that is sent twice is one command: its id comes with the page.
        "command_ids": {name: f"page.{name}.{secrets.token_hex(8)}" for name in NodeCommand},
    }
    return render(request, "dashboard/nodes/node.html", context)


def _slot(view: NodeView, engine_id: str) -> str:
    """What the supervisor of the node calls the engine: its process changes, its slot stays."""
    engines = view.card.engines if view.card else ()
    return next((engine.slot for engine in engines if engine.id == engine_id), "")

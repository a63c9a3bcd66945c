"""The buttons of a worker over HTTP: drain, and resume. It has no node that could be told; it hears it in its calls."""

from __future__ import annotations

import re
from collections.abc import Mapping

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from dalston_queue.accounts.roles import person
from dalston_queue.audit.record import audited
from dalston_queue.broker.engine.remote import NODE, RemoteWorker
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.protocol.names import WORKER_ID
from dalston_queue.dashboard.parts.reason import reason_of
from dalston_queue.dashboard.security.roles import operator_required
from dalston_queue.redis import get_broker

Said = tuple[bool, str]
"""Whether something was changed, and what is said of it."""


def worker_of(query: Mapping[str, str]) -> str:
    """The worker that a page's address names; empty if it names none."""
    worker_id = query.get("worker", "")
    return worker_id if re.fullmatch(WORKER_ID, worker_id) else ""


@require_POST
@operator_required
def order_worker(request: HttpRequest, worker_id: str, verb: str) -> HttpResponse:
    try:
        worker = RemoteWorker.find(get_broker(), worker_id)
        if worker is None:
            changed, said = False, f"Nothing was changed: {worker_id} has left."
        else:
            changed, said = (_drain if verb == "drain" else _resume)(request, worker)
    except BrokerError:
        changed, said = False, "Nothing was changed: Redis does not answer."
    (messages.success if changed else messages.error)(request, said)
    return redirect("dashboard:node", node_id=NODE)


def _drain(request: HttpRequest, worker: RemoteWorker) -> Said:
    worker_id, reason, who = worker.engine.engine_id, reason_of(request), person(request)
    if worker.is_dead:
        return False, f"Nothing was changed: {worker_id} was taken for dead."
    if not reason:
        return False, "Nothing was changed: say why the worker should drain."
    if worker.should_drain:
        return False, f"Somebody had told {worker_id} to drain already."
    with audited("worker.drain", worker_id, reason=reason, **who) as row:
        row.after = {"should_drain": worker.drain(who["actor"], reason)}
    if not worker.should_drain:
        return False, f"Nothing was changed: {worker_id} has left."
    return True, f"{worker_id} gets nothing more, and hears with its next call that it should finish and leave."


def _resume(request: HttpRequest, worker: RemoteWorker) -> Said:
    worker_id = worker.engine.engine_id
    if not worker.should_drain:
        return False, f"Nothing was changed: nobody wants {worker_id} to drain (any more)."
    with audited("worker.resume", worker_id, reason=reason_of(request), **person(request)) as row:
        worker.undrain()
        row.after = {"should_drain": False}
    return True, f"{worker_id} is given work again, if it has not left."

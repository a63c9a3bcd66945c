"""/workers: what an operator tells a worker that speaks HTTP. It has no node: it hears of it in its own calls."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpRequest
from ninja import Body, Router, Schema
from pydantic import Field

from dalston_queue.api.auth.bearer import needs
from dalston_queue.api.auth.principal import principal_of
from dalston_queue.api.errors.problems import ApiProblem, Code, answers, not_found
from dalston_queue.api.schemas.base import BodyIn, ReasonInBody
from dalston_queue.api.schemas.workers import WorkerId
from dalston_queue.audit.record import audited
from dalston_queue.broker.engine.remote import RemoteWorker
from dalston_queue.models.api_token import Scope
from dalston_queue.redis import get_broker

router = Router(tags=["nodes"])


class WorkerOrderIn(BodyIn):
    reason: ReasonInBody = ""


class WorkerDrainOut(Schema):
    worker_id: str
    should_drain: bool
    changed: bool = Field(description="False: it was so before.")


@router.post(
    "/workers/{worker_id}/drain", auth=needs(Scope.OPERATE), response=answers({200: WorkerDrainOut}, 400, 404, 409)
)
def drain_worker(request: HttpRequest, worker_id: WorkerId, body: Annotated[WorkerOrderIn, Body()]) -> WorkerDrainOut:
    """Give a worker nothing more, and tell it to finish what it has and to leave. Safe to repeat."""
    principal, worker = principal_of(request), _find(worker_id)
    if worker.is_dead:
        raise ApiProblem(409, Code.STATE_CONFLICT, f"{worker_id} was taken for dead: it has nothing, and gets nothing.")
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
def resume_worker(request: HttpRequest, worker_id: WorkerId, body: Annotated[WorkerOrderIn, Body()]) -> WorkerDrainOut:
    """Give it work again, if it has not left. Safe to repeat."""
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

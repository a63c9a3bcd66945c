"""/replay_batches: list and read replays of many dead letters; undo one that waits, stop one that runs."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Path, Query, Router

from dalston_queue.api.auth.bearer import needs, sees_all_projects
from dalston_queue.api.auth.principal import principal_of
from dalston_queue.api.errors.problems import ApiProblem, Code, answers, not_found
from dalston_queue.api.requests.lists import page
from dalston_queue.api.schemas.base import Cursor, Limit, Page, Reason
from dalston_queue.api.schemas.dead_letters import ReplayBatchOut, WithdrawnOut, replay_batch_out
from dalston_queue.jobs.operator.replay_batches import Withdrawal, stop
from dalston_queue.models import ReplayBatch
from dalston_queue.models.accounts import Scope
from dalston_queue.models.replay_batch import BatchState

router = Router(tags=["dead letters"])

ReplayBatchId = Annotated[UUID, Path()]


@router.get("/replay_batches", auth=sees_all_projects(), response=answers({200: Page[ReplayBatchOut]}))
def list_replay_batches(
    request: HttpRequest,
    state: Annotated[BatchState | None, Query()] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Any:
    """Replay batches, newest first."""
    batches = ReplayBatch.objects.defer("dead_letter_ids")
    return page(batches if state is None else batches.filter(state=state), replay_batch_out, limit, cursor)


@router.get("/replay_batches/{replay_batch_id}", auth=sees_all_projects(), response=answers({200: ReplayBatchOut}, 404))
def read_replay_batch(request: HttpRequest, replay_batch_id: ReplayBatchId) -> ReplayBatchOut:
    """One replay batch, and how far it got."""
    batch = ReplayBatch.objects.defer("dead_letter_ids").filter(pk=replay_batch_id).first()
    if batch is None:
        raise not_found(f"replay batch {replay_batch_id}")
    return replay_batch_out(batch)


@router.delete(
    "/replay_batches/{replay_batch_id}", auth=needs(Scope.OPERATE), response=answers({200: WithdrawnOut}, 404, 409)
)
def withdraw_replay_batch(request: HttpRequest, replay_batch_id: ReplayBatchId, reason: Reason = "") -> WithdrawnOut:
    """Undo a batch that waits, or stop the rest of one that runs; the answer says which."""
    done = stop(replay_batch_id, reason=reason, **principal_of(request).signature())
    if done.batch is None:
        raise not_found(f"replay batch {replay_batch_id}")
    if done.what is Withdrawal.UNDONE:
        return WithdrawnOut(outcome="undone", replay_batch=replay_batch_out(done.batch))
    if done.what is Withdrawal.STOPPED:
        return WithdrawnOut(outcome="stopped", replay_batch=replay_batch_out(done.batch))
    by = f" by {done.batch.ended_by}" if done.batch.ended_by else ""
    raise ApiProblem(409, Code.STATE_CONFLICT, f"Too late: the batch is {done.batch.state}{by}.")

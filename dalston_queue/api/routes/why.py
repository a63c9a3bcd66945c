"""/tasks/{id}/why: one sentence and a code for why it is not running."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Path, Router, Schema
from pydantic import Field

from dalston_queue.api.auth.bearer import needs
from dalston_queue.api.auth.principal import principal_of
from dalston_queue.api.errors.problems import answers
from dalston_queue.api.routes.tasks import visible_task
from dalston_queue.jobs.lifecycle.states import TaskStatus
from dalston_queue.jobs.queries.why import WhyCode, explain, facts_about
from dalston_queue.models.api_token import Scope
from dalston_queue.redis import get_broker

router = Router(tags=["tasks"])


class WhyOut(Schema):
    task_id: UUID
    status: TaskStatus
    code: WhyCode
    why: str = Field(description="A sentence for people.")
    queue_position: int | None = Field(
        description="Its place in line, 1 for the next one; null while no engine could take it from there."
    )
    eta_seconds: float | None = Field(
        description="If all are busy: when it starts, by the pace of the last minutes. Null while that is not known."
    )
    until: datetime | None = Field(description="Of `backoff` and `scheduled`: when it may start.")


@router.get("/tasks/{task_id}/why", auth=needs(Scope.READ), response=answers({200: WhyOut}, 404))
def why_not_running(request: HttpRequest, task_id: Annotated[UUID, Path()]) -> WhyOut:
    """Why is it not running?"""
    task = visible_task(principal_of(request), task_id)
    why = explain(task, facts_about(task, get_broker()), timezone.now())
    return WhyOut(
        task_id=task_id,
        status=TaskStatus(task.status),
        code=why.code,
        why=why.sentence,
        queue_position=why.queue_position,
        eta_seconds=None if why.eta_seconds is None else round(why.eta_seconds, 1),
        until=why.until,
    )

"""Events for tests, as an engine would report them."""

from typing import Any

from django.utils import timezone

from dalston_queue.broker.protocol.messages import ErrorInfo, Event
from dalston_queue.broker.protocol.types import Cause, EventKind
from dalston_queue.models import Task


def event(task: Task, kind: EventKind, seq: int, **more: Any) -> Event:
    at_ms = more.pop("at_ms", int(timezone.now().timestamp() * 1000))
    return Event(
        kind=kind, job_id=str(task.job_id), task_id=str(task.id), queue="echo", attempt=task.attempt, seq=seq,
        engine_id="n.e.0.b", at_ms=at_ms, **more,
    )  # fmt: skip


def life(task: Task) -> list[Event]:
    """Started, lost, started again, completed."""
    return [
        event(task, EventKind.TASK_STARTED, 1),
        event(task, EventKind.TASK_RECOVERED, 2, error=ErrorInfo(message="lost", cause=Cause.NODE_LOST), losses=1),
        event(task, EventKind.TASK_STARTED, 3),
        event(task, EventKind.TASK_COMPLETED, 4, result={"ok": True}),
    ]

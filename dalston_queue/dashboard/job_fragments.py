"""A job's page as named pieces of HTML, the same for the page and the socket."""

from __future__ import annotations

from functools import lru_cache
from uuid import UUID

from dalston_queue.dashboard.board import Fragment, Row
from dalston_queue.dashboard.fragments import TASK_TONES, pulse, render, table, words_for
from dalston_queue.dashboard.job_view import EventLine, JobView, TaskLine, read_job


def job_fragments(job_id: UUID) -> list[Fragment]:
    """Raises LookupError if there is no such job: it was removed with the old history."""
    view = read_job(job_id)
    if view is None:
        raise LookupError(f"there is no job {job_id}")
    return fragments_of(view)


def fragments_of(view: JobView) -> list[Fragment]:
    tone = TASK_TONES.get(view.status, "")
    return [
        pulse(view.at),
        Fragment("job", render("job", job=view, tone=tone)),
        table("stages", [_task(task) for task in view.tasks]),
        table("events", [event_row(event) for event in view.events]),
    ]


@lru_cache(maxsize=512)
def _task(task: TaskLine) -> Row:
    row_id = f"stage-{task.stage}"
    spent = words_for(task.started_at, task.finished_at)
    status, tone = task.status.replace("_", " "), TASK_TONES.get(task.status, "")
    return Row(row_id, render("stage", row_id=row_id, task=task, status=status, tone=tone, spent=spent))


@lru_cache(maxsize=1024)
def event_row(event: EventLine) -> Row:
    row_id = f"event-{event.id}"
    tone, status = TASK_TONES.get(event.to_status, ""), event.to_status.replace("_", " ")
    return Row(row_id, render("event", row_id=row_id, event=event, tone=tone, status=status))

"""Fragments of a job's page, the same for the page and its WebSocket."""

from __future__ import annotations

from functools import lru_cache
from uuid import UUID

from dalston_queue.dashboard.audit.render import trail_table
from dalston_queue.dashboard.job import dag, gantt
from dalston_queue.dashboard.job.read import SHOWN_DELIVERIES, EventLine, JobView, TaskLine, read_job
from dalston_queue.dashboard.job.webhooks import webhook_row
from dalston_queue.dashboard.live.fragments import Fragment, Row, as_of, render, table
from dalston_queue.dashboard.parts.words import TASK_TONES, outcome_words, time_spent
from dalston_queue.jobs.lifecycle.states import TaskStatus
from dalston_queue.polling import Gone
from dalston_queue.transcription.wanted import NAME as TRANSCRIPTION


def job_fragments(job_id: UUID, may_operate: bool) -> list[Fragment]:
    """Raises Gone if there is no such job: it was removed with the old history."""
    view = read_job(job_id)
    if view is None:
        raise Gone(f"there is no job {job_id}")
    return fragments_of(view, may_operate)


def fragments_of(view: JobView, may_operate: bool) -> list[Fragment]:
    return [
        as_of(view.at),
        Fragment("job", _head(view)),
        Fragment("stops", render("job/_stops", stops=view.stops)),
        Fragment("dag", f'<div id="dag">{_dag(view)}</div>'),
        Fragment("gantt", f'<div id="gantt">{_gantt(view)}</div>'),
        table("stages", [_task(task, may_operate) for task in view.tasks], columns=5, empty="This job has no task."),
        *_webhooks(view, may_operate),
        trail_table(view.actions),
        events_table(view.events),
    ]


def _head(view: JobView) -> str:
    words = {"tone": TASK_TONES.get(view.job.status, ""), "percent": round(100 * view.job.progress)}
    is_transcription = view.job.name == TRANSCRIPTION
    return render("job/_head", view=view, job=view.job, is_transcription=is_transcription, **words)


def _webhooks(view: JobView, may_operate: bool) -> list[Fragment]:
    if view.webhooks is None:
        return []
    rows = [webhook_row(webhook, may_operate) for webhook in view.webhooks]
    return [table("webhooks", rows, columns=4, empty="None yet: it is sent when the job ends.")]


def _dag(view: JobView) -> str:
    return _drawn_dag(
        tuple(
            dag.Stage(task.stage, task.after, task.status, TASK_TONES.get(task.status, ""), task.required)
            for task in view.tasks
        )
    )


@lru_cache(maxsize=64)
def _drawn_dag(stages: tuple[dag.Stage, ...]) -> str:
    return dag.draw(stages)


def _gantt(view: JobView) -> str:
    spans = [gantt.Span(task.stage, task.first_enqueued_at, task.deliveries) for task in view.tasks]
    return gantt.draw(spans, view.job.created_at, view.job.finished_at, view.at)


@lru_cache(maxsize=512)
def _task(task: TaskLine, may_operate: bool) -> Row:
    row_id = f"stage-{task.stage}"
    spent = time_spent(task.started_at, task.finished_at)
    status, tone = task.status.replace("_", " "), TASK_TONES.get(task.status, "")
    several = task.deliveries[-SHOWN_DELIVERIES:] if len(task.deliveries) > 1 else ()
    deliveries = [(each, outcome_words(each)) for each in several]
    words = {"status": status, "tone": tone, "spent": spent, "deliveries": deliveries}
    has_actions = may_operate and task.status in {TaskStatus.QUEUED, TaskStatus.RUNNING}
    return Row(row_id, render("job/_task", row_id=row_id, task=task, has_actions=has_actions, **words))


def events_table(events: tuple[EventLine, ...]) -> Fragment:
    empty = "No event yet: an orchestrator starts the job within a second."
    return table("events", [_event(event) for event in events], columns=5, empty=empty)


@lru_cache(maxsize=1024)
def _event(event: EventLine) -> Row:
    row_id = f"event-{event.id}"
    tone, status = TASK_TONES.get(event.to_status, ""), event.to_status.replace("_", " ")
    return Row(row_id, render("job/_event", row_id=row_id, event=event, tone=tone, status=status))

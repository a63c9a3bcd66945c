"""What the page of one dead letter reads, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from dalston_queue.audit.trail import actions_on
from dalston_queue.dashboard.audit.read import ActionLine, line_of
from dalston_queue.dashboard.dead_letters.read import batches_of, live_batch_of
from dalston_queue.dashboard.job.read import EventLine, events_of
from dalston_queue.dashboard.parts.black_box import BlackBox, RawField, black_box, pretty, raw_fields
from dalston_queue.models import DeadLetter, ReplayBatch, Task, TaskEvent

SHOWN_ACTIONS = 50


@dataclass(frozen=True, slots=True)
class DeadLetterView:
    """What may change while the page is open."""

    at: datetime
    dead_letter: DeadLetter
    batch: ReplayBatch | None  # that is about to replay it
    events: tuple[EventLine, ...]
    actions: tuple[ActionLine, ...]

    @property
    def is_open(self) -> bool:
        return self.dead_letter.replayed_at is None and self.dead_letter.discarded_at is None


@dataclass(frozen=True, slots=True)
class DeadLetterContent:
    """What never changes: shown once, not sent again."""

    traceback: str
    box: BlackBox | None
    parameters: str
    raw: tuple[RawField, ...]


def read_dead_letter(dead_letter_id: UUID) -> DeadLetterView | None:
    rows = DeadLetter.objects.select_related("task").defer("traceback", "evidence", "raw", "task__result")
    dead_letter = rows.filter(pk=dead_letter_id).first()
    if dead_letter is None:
        return None
    return DeadLetterView(
        at=timezone.now(),
        dead_letter=dead_letter,
        batch=live_batch_of(dead_letter_id),
        events=events_of(TaskEvent.objects.filter(task_id=dead_letter.task_id)) if dead_letter.task_id else (),
        actions=tuple(line_of(row) for row in _actions(dead_letter)),
    )


def read_content(dead_letter_id: UUID) -> DeadLetterContent:
    dead_letter = DeadLetter.objects.select_related("task").get(pk=dead_letter_id)
    parameters = pretty(dead_letter.task.parameters) if dead_letter.task else ""
    return DeadLetterContent(
        dead_letter.traceback, black_box(dead_letter.evidence), parameters, raw_fields(dead_letter.raw)
    )


def own_parameters(dead_letter_ids: list[UUID]) -> dict[UUID, Any]:
    """The parameters of these dead letters' tasks, by dead letter."""
    rows = Task.objects.filter(dead_letters__in=dead_letter_ids).values_list("dead_letters__id", "parameters")
    return {dead_letter: parameters for dead_letter, parameters in rows if dead_letter in dead_letter_ids}


def _actions(dead_letter: DeadLetter) -> list[Any]:
    """The actions on it, on its task, and on the replay batches that name it."""
    targets = [str(dead_letter.pk), *([str(dead_letter.task_id)] if dead_letter.task_id else [])]
    targets += batches_of([dead_letter.pk])
    return list(actions_on(targets)[:SHOWN_ACTIONS])

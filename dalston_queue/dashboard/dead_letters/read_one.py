"""What the page of one dead letter shows, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from dalston_queue.audit.trail import about
from dalston_queue.dashboard.audit.read import ActLine, line_of
from dalston_queue.dashboard.dead_letters.read import OrderLine, live_order_of, order_line, orders_of
from dalston_queue.dashboard.job.read import EventLine, events_of
from dalston_queue.dashboard.parts.black_box import BlackBox, RawField, black_box, pretty, raw_fields
from dalston_queue.models import DeadLetter, Task, TaskEvent

ACTS = 50


@dataclass(frozen=True, slots=True)
class LetterView:
    """What may change while somebody looks."""

    at: datetime
    id: str
    queue: str
    task_type: str
    stage: str
    task_id: str
    job_id: str
    task_status: str
    cause: str
    error: str
    error_type: str
    fingerprint: str
    attempt: int
    deliveries: int
    created_at: datetime
    replayed_at: datetime | None
    replayed_attempt: int | None
    discarded_at: datetime | None
    order: OrderLine | None  # that is about to take it back
    events: tuple[EventLine, ...]
    acts: tuple[ActLine, ...]

    @property
    def is_open(self) -> bool:
        return self.replayed_at is None and self.discarded_at is None


@dataclass(frozen=True, slots=True)
class LetterContent:
    """What never changes: shown once, not sent again."""

    traceback: str
    box: BlackBox | None
    parameters: str
    raw: tuple[RawField, ...]


def read_letter(letter_id: UUID) -> LetterView | None:
    rows = DeadLetter.objects.select_related("task").defer("traceback", "evidence", "raw", "task__result")
    letter = rows.filter(pk=letter_id).first()
    if letter is None:
        return None
    task = letter.task
    order = live_order_of(letter_id)
    return LetterView(
        at=timezone.now(),
        id=str(letter.pk),
        queue=letter.queue,
        task_type=letter.task_type,
        stage=task.stage if task else "",
        task_id=str(task.pk) if task else "",
        job_id=str(task.job_id) if task else "",
        task_status=task.status if task else "",
        cause=letter.cause,
        error=letter.error,
        error_type=letter.error_type,
        fingerprint=letter.fingerprint,
        attempt=letter.attempt,
        deliveries=letter.deliveries,
        created_at=letter.created_at,
        replayed_at=letter.replayed_at,
        replayed_attempt=letter.replayed_attempt,
        discarded_at=letter.discarded_at,
        order=order_line(order) if order else None,
        events=events_of(TaskEvent.objects.filter(task_id=task.pk)) if task else (),
        acts=tuple(line_of(row) for row in _acts(letter)),
    )


def read_content(letter_id: UUID) -> LetterContent:
    letter = DeadLetter.objects.select_related("task").get(pk=letter_id)
    parameters = pretty(letter.task.parameters) if letter.task else ""
    return LetterContent(letter.traceback, black_box(letter.evidence), parameters, raw_fields(letter.raw))


def own_parameters(letter_ids: list[UUID]) -> dict[UUID, Any]:
    """What these letters' tasks were given, by letter."""
    rows = Task.objects.filter(dead_letters__in=letter_ids).values_list("dead_letters__id", "parameters")
    return {letter: parameters for letter, parameters in rows if letter in letter_ids}


def _acts(letter: DeadLetter) -> list[Any]:
    """What was done to it, to its task, and the orders that took it along."""
    targets = [str(letter.pk), *([str(letter.task_id)] if letter.task_id else [])]
    targets += orders_of([letter.pk])
    return list(about(targets)[:ACTS])

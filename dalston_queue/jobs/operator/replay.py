"""Replays dead letters at once, or discards them. A replayed task has fresh budgets and the next attempt; its job runs
again, and its skipped tasks wait again.

Idempotent: the second replay of a dead letter returns the attempt that the first one made. A job can't succeed while
any required task of it is dead, so all dead letters of a job are replayed together.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec
from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from dalston_queue.artifacts.reference import references_in
from dalston_queue.broker.protocol.types import Priority
from dalston_queue.jobs.artifacts import check_named
from dalston_queue.jobs.errors import InvalidJob
from dalston_queue.jobs.lifecycle.advance import advance
from dalston_queue.jobs.lifecycle.status import Change, LockedJob, lock_jobs, move_jobs, move_tasks
from dalston_queue.jobs.submit.storable import storable
from dalston_queue.models import DeadLetter, Task
from dalston_queue.models.dead_letter import OPEN

CHUNK = 100
TOO_WIDE_HINT = "name a queue, a cause or a time"  # hint for a filter that matches too many


class Outcome(StrEnum):
    REPLAYED = "replayed"
    ALREADY = "already replayed"
    DISCARDED = "discarded before"
    STOPPING = "its job is still stopping other tasks; try again in a moment"
    UNREADABLE = "bytes that belong to no task can't be replayed"
    GONE = "there is no such dead letter"


@dataclass(frozen=True, slots=True)
class Replayed:
    dead_letter_id: UUID
    outcome: Outcome
    task_id: UUID | None = None
    attempt: int | None = None  # the attempt the replay made


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A filter of open dead letters, by every field that is not None."""

    queue: str | None = None
    cause: str | None = None
    fingerprint: str | None = None
    task_type: str | None = None
    error_contains: str | None = None
    retriable: bool | None = None
    project: str | None = None  # its name
    node: str | None = None
    engine: str | None = None  # a process, or a slot: all processes of it
    project_id: UUID | None = None  # what the token may see
    created_after: datetime | None = None  # then or later
    created_before: datetime | None = None

    @property
    def engines(self) -> str | None:
        """A regular expression of the ids of the engines: a node, an engine with its number, and a start."""
        node = None if self.node is None else rf"^{re.escape(self.node)}(\.[^.]+){{3}}$"
        slot = None if self.engine is None else rf"^{re.escape(self.engine)}(\.[^.]+)?$"
        return node if slot is None else slot if node is None else f"(?={node}){slot}"


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of a replay to the tasks of the dead letters that were asked for, not to their siblings."""

    parameters: msgspec.Raw | None
    priority: Priority | None
    asked_for: Callable[[Collection[UUID]], Collection[UUID]]  # which of these dead letters
    keep_retries: bool = False

    @classmethod
    def of(
        cls,
        parameters: Mapping[str, Any] | None,
        priority: Priority | None,
        asked_for: Callable[[Collection[UUID]], Collection[UUID]] = frozenset[UUID]().intersection,
    ) -> "Changes":
        """Raises InvalidJob. Without `asked_for` the changes are only checked: they apply to no task."""
        text = None if parameters is None else storable(parameters, "the new parameters")
        limit: int = settings.DALSTON_MAX_PAYLOAD_BYTES
        if text is not None and len(bytes(text)) > limit:
            raise InvalidJob(f"the new parameters may have at most {limit} bytes as JSON")
        return cls(text, priority, asked_for)


def matching(wanted: Filter) -> "QuerySet[DeadLetter]":
    """The open dead letters of a filter, oldest first: to count for a dry run, to list, to replay."""
    dead_letters = DeadLetter.objects.filter(OPEN)
    for lookup, value in {
        "queue": wanted.queue,
        "cause": wanted.cause,
        "fingerprint": wanted.fingerprint,
        "task_type": wanted.task_type,
        "error__icontains": wanted.error_contains,
        "retriable": wanted.retriable,
        "project__name": wanted.project,
        "engine_id__regex": wanted.engines,
        "task__job__project_id": wanted.project_id,
        "created_at__gte": wanted.created_after,
        "created_at__lt": wanted.created_before,
    }.items():
        if value is not None:
            dead_letters = dead_letters.filter(**{lookup: value})
    return dead_letters.order_by("id")


def replay(
    dead_letter_ids: Collection[UUID],
    now: datetime,
    *,
    parameters: Mapping[str, Any] | None = None,
    priority: Priority | None = None,
    keep_retries: bool = False,
) -> list[Replayed]:
    """Replay these dead letters, in this order. New parameters and priority apply to their tasks only. `keep_retries`:
    with the retries that they have left, which may be none.

    Raises InvalidJob if the parameters can't be stored; nothing is replayed then.
    """
    ids = list(dict.fromkeys(dead_letter_ids))
    new = replace(Changes.of(parameters, priority, frozenset(ids).intersection), keep_retries=keep_retries)
    check_files(new, DeadLetter.objects.filter(id__in=ids))
    outcomes: dict[UUID, Replayed] = {}
    for start in range(0, len(ids), CHUNK):
        outcomes |= replay_chunk(ids[start : start + CHUNK], now, new)
    return [outcomes[dead_letter] for dead_letter in ids]


@transaction.atomic
def check_files(new: Changes, dead_letters: "QuerySet[DeadLetter]") -> None:
    """New parameters name artifacts of the own project only. Raises InvalidJob."""
    refs = set() if new.parameters is None else references_in(bytes(new.parameters))
    if refs:
        found = dead_letters.filter(task__isnull=False).order_by().values_list("task__job__project_id", flat=True)
        for project_id in found.distinct():
            check_named(project_id, refs)


@transaction.atomic
def discard(dead_letter_ids: Collection[UUID], now: datetime) -> int:
    """Close dead letters without a replay; their tasks and jobs stay as they ended. Returns how many were open.

    Racing a replay, the transaction that locks the job first wins; the other finds the dead letter closed.
    """
    _lock_jobs_of(dead_letter_ids)
    dead_letters = DeadLetter.objects.filter(OPEN, id__in=dead_letter_ids)
    return dead_letters.update(discarded_at=now)


@transaction.atomic
def replay_chunk(ids: Sequence[UUID], now: datetime, new: Changes) -> dict[UUID, Replayed]:
    """Replay these in one transaction."""
    jobs = _lock_jobs_of(ids)
    asked = {
        dead_letter.id: dead_letter for dead_letter in DeadLetter.objects.filter(id__in=ids).select_related("task")
    }
    outcomes = {dead_letter: _closed(dead_letter, asked.get(dead_letter)) for dead_letter in ids}
    wanted = {
        dead_letter.task_id
        for dead_letter in asked.values()
        if outcomes[dead_letter.id].outcome is Outcome.REPLAYED and dead_letter.task_id is not None
    }
    of_jobs = set(Task.objects.filter(id__in=wanted).values_list("job_id", flat=True))
    opened = move_jobs("replay", of_jobs & jobs.keys(), now)
    # A sibling that was asked for as well, in a later chunk, is replayed now, so it gets the changes now.
    changed: set[UUID | None] = set()
    if new.parameters is not None or new.priority is not None:
        siblings = dict(DeadLetter.objects.filter(OPEN, task__job_id__in=opened).values_list("id", "task_id"))
        changed = {siblings[dead_letter] for dead_letter in new.asked_for(siblings)}
    changes = [
        Change(
            task_id=task.id,
            attempt=task.attempt,
            at=now,
            message="replayed",
            parameters=new.parameters if task.id in changed else None,
            priority=new.priority if task.id in changed else None,
            keep_retries=new.keep_retries,
        )
        for task in Task.objects.filter(job_id__in=opened, status="dead_letter").only("id", "attempt")
    ]
    attempts = {moved.task_id: moved.attempt for moved in move_tasks("replay", changes)}
    _reopen(opened, now)
    _close(attempts, now)
    advance(opened, now)
    for dead_letter in asked.values():
        if outcomes[dead_letter.id].outcome is Outcome.REPLAYED:
            attempt = attempts.get(dead_letter.task_id) if dead_letter.task_id else None
            outcome = Outcome.STOPPING if attempt is None else Outcome.REPLAYED
            outcomes[dead_letter.id] = Replayed(dead_letter.id, outcome, dead_letter.task_id, attempt)
    return outcomes


def _lock_jobs_of(dead_letter_ids: Collection[UUID]) -> dict[UUID, LockedJob]:
    dead_letters = DeadLetter.objects.filter(id__in=dead_letter_ids, task__isnull=False)
    return lock_jobs(dead_letters.values_list("task__job_id", flat=True))


def _closed(dead_letter_id: UUID, dead_letter: DeadLetter | None) -> Replayed:
    """Why a dead letter can't be replayed; REPLAYED stands for "it can"."""
    if dead_letter is None:
        return Replayed(dead_letter_id, Outcome.GONE)
    if dead_letter.replayed_at is not None:
        return Replayed(dead_letter_id, Outcome.ALREADY, dead_letter.task_id, dead_letter.replayed_attempt)
    if dead_letter.discarded_at is not None:
        return Replayed(dead_letter_id, Outcome.DISCARDED, dead_letter.task_id)
    if dead_letter.task_id is None:
        return Replayed(dead_letter_id, Outcome.UNREADABLE)
    return Replayed(dead_letter_id, Outcome.REPLAYED, dead_letter.task_id)


def _reopen(job_ids: list[UUID], now: datetime) -> None:
    """Reopen the tasks that were skipped or stopped when the job failed: they wait again for their parents."""
    rows = Task.objects.filter(job_id__in=job_ids, status__in=["skipped", "cancelled"]).values_list("id", "attempt")
    changes = [Change(task_id=task, attempt=attempt, at=now, message="its job runs again") for task, attempt in rows]
    move_tasks("reopen", changes)


def _close(attempts: Mapping[UUID, int], now: datetime) -> None:
    dead_letters = list(DeadLetter.objects.filter(OPEN, task_id__in=attempts))
    for dead_letter in dead_letters:
        dead_letter.replayed_at = now
        dead_letter.replayed_attempt = attempts[dead_letter.task_id] if dead_letter.task_id else None
    DeadLetter.objects.bulk_update(dead_letters, ["replayed_at", "replayed_attempt"])

"""Ends tasks that get no further attempt: a required task becomes a dead letter, an optional one just fails."""

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid5

from django.db import transaction

from dalston_queue.broker.protocol.types import Cause
from dalston_queue.database import storable_text
from dalston_queue.jobs.lifecycle.retry import may_succeed
from dalston_queue.jobs.lifecycle.status import Change, Moved, move_tasks
from dalston_queue.jobs.submit.storable import without_nul
from dalston_queue.metrics.tasks import DEAD_LETTERED
from dalston_queue.models import DeadLetter, Task

_UNREADABLE = UUID("6f0c9f0a-5a0e-5c44-9a3c-2f7a1d1f3b52")  # the namespace of dead letters that belong to no task


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a task ends."""

    task_id: UUID
    attempt: int
    at: datetime
    cause: Cause
    message: str
    error_type: str = ""
    retriable: bool | None = None
    seq: int = 0
    engine_id: str = ""
    deliveries: int | None = None
    traceback: str = ""
    evidence: Any = None
    raw: Mapping[str, bytes] | None = None


def end_tasks(endings: Sequence[Ending]) -> list[Moved]:
    """End these tasks, whose jobs are locked; returns those that moved."""
    if not endings:
        return []
    wanted = [ending.task_id for ending in endings]
    facts = {
        row[0]: row[1:]
        for row in Task.objects.filter(id__in=wanted).values_list("id", "required", "queue", "task_type", "project_id")
    }
    changes: dict[str, list[Change]] = {"dead_letter": [], "fail": []}
    for ending in endings:
        if ending.task_id in facts:
            changes["dead_letter" if facts[ending.task_id][0] else "fail"].append(_change(ending))
    dead_lettered = move_tasks("dead_letter", changes["dead_letter"])
    by_task = {ending.task_id: ending for ending in endings}
    DeadLetter.objects.bulk_create(
        _dead_letter(by_task[moved.task_id], *facts[moved.task_id][1:]) for moved in dead_lettered
    )
    return dead_lettered + move_tasks("fail", changes["fail"])


def dead_letter_unreadable(queue: str, entry: str, reason: str, raw: Mapping[str, bytes], now: datetime) -> None:
    """Keep bytes that can't be read, and that name no task, for an operator.

    `entry` names the entry in Redis. The dead letter's id is made from it, so that a batch which is handled twice (the
    process died before it acknowledged) leaves one dead letter.
    """
    dead_letter = DeadLetter(
        id=uuid5(_UNREADABLE, entry),
        queue=queue,
        cause=Cause.REJECTED,
        error=storable_text(reason),
        error_type="Malformed",
        retriable=False,
        fingerprint=fingerprint(queue, Cause.REJECTED, "Malformed", reason),
        raw=readable(raw),
        created_at=now,
    )
    is_new = not DeadLetter.objects.filter(pk=dead_letter.pk).exists()
    DeadLetter.objects.bulk_create([dead_letter], ignore_conflicts=True)
    if is_new:
        transaction.on_commit(DEAD_LETTERED.labels("unreadable").inc)


def readable(raw: Mapping[str, bytes]) -> dict[str, Any]:
    """Raw fields as JSON, without loss: text where it is text, base64 where it isn't."""
    return {storable_text(name): _text_or_base64(value) for name, value in raw.items()}


def _text_or_base64(value: bytes) -> str | dict[str, str]:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}
    return {"base64": b64encode(value).decode()} if "\x00" in text else text


def _change(ending: Ending) -> Change:
    return Change(
        task_id=ending.task_id,
        attempt=ending.attempt,
        at=ending.at,
        seq=ending.seq,
        engine_id=ending.engine_id,
        deliveries=ending.deliveries,
        cause=ending.cause,
        message=storable_text(ending.message),
        error_type=storable_text(ending.error_type)[:200],
        retriable=ending.retriable,
    )


def _dead_letter(ending: Ending, queue: str, task_type: str, project_id: UUID) -> DeadLetter:
    return DeadLetter(
        task_id=ending.task_id,
        queue=queue,
        task_type=task_type,
        project_id=project_id,
        engine_id=ending.engine_id[:200],
        attempt=ending.attempt,
        deliveries=ending.deliveries or 0,
        cause=ending.cause,
        error=storable_text(ending.message),
        error_type=storable_text(ending.error_type)[:200],
        retriable=may_succeed(ending.cause, ending.retriable),
        traceback=storable_text(ending.traceback),
        fingerprint=fingerprint(queue, ending.cause, ending.error_type, ending.message),
        evidence=json.loads(without_nul(json.dumps(ending.evidence))),
        raw=readable(ending.raw) if ending.raw is not None else None,
        created_at=ending.at,
    )


# What differs between two occurrences of one error, longest patterns first.
_VARIES = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"  # uuids
    r"|0x[0-9a-f]+"  # addresses
    r"|\b[0-9a-f]{12,}\b"  # digests
    r"|(?:/[\w.@+-]+){2,}"  # paths
    r"|'[^']*'|\"[^\"]*\""  # quoted values
    r"|\d+(?:\.\d+)?",  # numbers
    re.IGNORECASE,
)


def fingerprint(queue: str, cause: str, error_type: str, message: str) -> str:
    """Equal for errors of one kind: the first line of the message counts, without ids, paths, values and numbers."""
    first_line = message.strip().split("\n", 1)[0][:500]
    same = "\x1f".join((queue, cause, error_type, _VARIES.sub("#", first_line)))
    return sha256(same.encode()).hexdigest()[:16]

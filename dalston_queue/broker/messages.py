"""What travels: the task message in a work stream, the outcome of an attempt, the event in an event stream.

A work entry has few short fields that the scripts read (v version, t task, j job, a attempt, e first enqueued at,
o timeout in ms) and `m`, the rest as JSON. An event has the same kind of fields and `m` with its result or error.
Unknown JSON fields are ignored, so a newer sender doesn't break an older reader. Decoding never raises on bad bytes:
it returns a Malformed with the raw fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dalston_queue.broker.types import Cause, EventKind, Priority, Tier

VERSION = 1
MAX_ENTRY_BYTES = 8 * 1024 * 1024  # parameters plus the parents' results; anything larger is malformed


class TaskMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of one task, as dispatch appends it and an engine gets it."""

    task_id: str
    job_id: str
    queue: str
    task_type: str
    attempt: int
    stage: str = ""  # the task's name in its job; empty means the same as queue
    priority: Priority = Priority.MEDIUM
    required_capabilities: tuple[str, ...] = ()
    parameters: Any = None
    inputs: Any = None  # results of the parents by stage
    timeout_ms: int = 0  # 0: no deadline
    enqueued_at_ms: int = 0  # the first time, kept by moves and rebuilds; 0 means now
    trace_id: str = ""
    v: int = VERSION


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    message: str
    type: str = ""
    cause: Cause = Cause.ERROR
    retry_after_s: float | None = None
    traceback: str = ""
    evidence: Any = None


class Completed(msgspec.Struct, frozen=True, tag="completed"):
    result: Any = None


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    error: ErrorInfo


class Cancelled(msgspec.Struct, frozen=True, tag="cancelled"):
    message: str = "cancelled on request"


Outcome = Completed | Failed | Cancelled


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One report. (attempt, seq) grows for a task; apply an event only if it is greater than what the row has."""

    kind: EventKind
    job_id: str
    task_id: str = ""
    queue: str = ""
    attempt: int = 0
    seq: int = 0
    deliveries: int = 0  # engines that died with it
    losses: int = 0  # nodes that got lost with it
    engine_id: str = ""
    at_ms: int = 0  # by the clock of the Redis server
    tier: Tier | None = None
    result: Any = None
    error: ErrorInfo | None = None
    raw: dict[str, bytes] | None = None  # task.buried only: the fields of the unreadable entry
    stream: str = ""
    entry_id: str = ""
    shard: int = 0


class Malformed(msgspec.Struct, frozen=True, kw_only=True):
    """An entry or event that can't be read: dead-letter it raw, then acknowledge it."""

    reason: str
    raw: dict[str, bytes]
    queue: str = ""
    stream: str = ""
    entry_id: str = ""
    shard: int = 0


def encode_task(message: TaskMessage) -> list[bytes]:
    """The values of the entry's fields t, j, a, e, o, m (v is VERSION)."""
    raise NotImplementedError


def decode_task(queue: str, fields: Sequence[bytes]) -> TaskMessage | Malformed:
    """From the flat field list of an entry."""
    raise NotImplementedError


def encode_outcome(outcome: Outcome) -> tuple[EventKind, bytes]:
    raise NotImplementedError


def decode_event(queue: str, entry_id: str, fields: Mapping[bytes, bytes]) -> Event | Malformed:
    raise NotImplementedError

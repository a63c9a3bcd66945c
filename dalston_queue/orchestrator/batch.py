"""Applies and commits a batch of events, and isolates an event that can't be applied.

If a server is the reason of a failure, it is raised: the caller repeats the batch, of which nothing was acknowledged.
Otherwise the batch is halved until the faulty event is alone; its task becomes a dead letter, and the rest is applied.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

import msgspec
import structlog
from django.db import Error, transaction

from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.protocol.messages import Event, Malformed
from dalston_queue.broker.protocol.types import Cause, EventKind
from dalston_queue.database import is_transient
from dalston_queue.jobs.lifecycle.advance import Advanced, advance
from dalston_queue.jobs.lifecycle.dead_letters import Ending, dead_letter_unreadable, end_tasks
from dalston_queue.jobs.lifecycle.status import lock_jobs
from dalston_queue.metrics.processes import EVENTS, POISON
from dalston_queue.models import DeadLetter
from dalston_queue.orchestrator.apply import apply

log = structlog.get_logger(__name__)
MAX_SEQ = 2**63 - 1
_POISON = "UnstorableEvent"  # the error type of such a dead letter


def handle(batch: Sequence[Event | Malformed], now: datetime) -> Advanced:
    """Apply a batch and commit. When it returns, every event is applied or kept as a dead letter."""
    done = Advanced()
    events: list[Event] = []
    for item in batch:
        if isinstance(item, Malformed):
            _keep_raw(item, item.reason, item.raw, now)
        elif item.kind is EventKind.TASK_DEAD_LETTERED and not item.job_id:
            # An entry without a record: a stray copy, or bytes of another program. It ends no task.
            _keep_raw(item, item.error.message if item.error else "an unreadable entry", item.raw or {}, now)
        else:
            events.append(item)
    _apply_or_split(events, now, done)
    EVENTS.inc(len(batch))
    return done


def _apply_or_split(events: list[Event], now: datetime, done: Advanced) -> None:
    if not events:
        return
    try:
        _check(events)
        done.add(apply(events, now))
    except Exception as error:
        if _is_outage(error):
            raise
        # Any other error would be raised again in every orchestrator that takes the event over.
        _isolate(events, now, done, error)


def _check(events: list[Event]) -> None:
    """Postgres refuses such a number only if its plan comes to compare it: for a task that is over, perhaps not."""
    for event in events:
        if not -MAX_SEQ <= event.seq <= MAX_SEQ:
            raise OverflowError(f"the number {event.seq} is not one of an event")


def _is_outage(error: Exception) -> bool:
    """True if a server is the reason, not the events."""
    return isinstance(error, BrokerError) or (isinstance(error, Error) and is_transient(error))


def _isolate(events: list[Event], now: datetime, done: Advanced, error: Exception) -> None:
    if len(events) > 1:
        middle = len(events) // 2
        _apply_or_split(events[:middle], now, done)
        _apply_or_split(events[middle:], now, done)
        return
    [event] = events
    log.error(
        "an event could not be applied and its task is a dead letter",
        kind=event.kind, task_id=event.task_id, job_id=event.job_id, attempt=event.attempt, engine_id=event.engine_id,
        queue=event.queue, error_type=type(error).__name__,  # its text, in the dead letter, may quote the result
    )  # fmt: skip
    POISON.inc()
    message = f"its event {event.kind} could not be stored: {error}"
    try:
        done.add(_dead_letter(event, message, now))
    except Exception as again:
        if _is_outage(again):
            raise
        _keep_alone(event, message, now)


def _keep_raw(item: Event | Malformed, reason: str, raw: Mapping[str, bytes], now: datetime) -> None:
    log.error("unreadable bytes are kept as a dead letter", queue=item.queue, reason=reason)
    dead_letter_unreadable(item.queue, _source(item), reason, raw, now)


def _source(event: Event | Malformed) -> str:
    """A name of the event in Redis. One entry may hold several events, so the content is part of the name."""
    return f"{event.shard} {event.stream} {event.entry_id} {_as_text(event)}"


def _as_text(event: Event | Malformed) -> str:
    """The event as text; without its body if that is nested too deeply."""
    try:
        return repr(event)
    except RecursionError:
        return repr(msgspec.structs.replace(event, result=None, error=None))


def _keep_alone(event: Event, message: str, now: datetime) -> None:
    dead_letter_unreadable(event.queue, _source(event), message, {"event": _as_text(event).encode()}, now)


@transaction.atomic
def _dead_letter(event: Event, message: str, now: datetime) -> Advanced:
    """End the task of an event that can't be applied. If there is no such task, or it can't move, the event is kept in
    a dead letter of its own."""
    try:
        job_id, task_id = UUID(event.job_id), UUID(event.task_id)
    except ValueError:
        _keep_alone(event, message, now)
        return Advanced()
    lock_jobs([job_id])
    ending = Ending(
        task_id=task_id,
        attempt=event.attempt,
        at=now,
        cause=Cause.REJECTED,
        message=message,
        error_type=_POISON,
        raw={"event": _as_text(event).encode()},
    )
    moved = end_tasks([ending])
    if not moved and not DeadLetter.objects.filter(task_id=task_id, attempt=event.attempt, error_type=_POISON).exists():
        _keep_alone(event, message, now)
    return advance({move.job_id for move in moved}, now)

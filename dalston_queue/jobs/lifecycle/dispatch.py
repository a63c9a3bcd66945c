"""Dispatch: appends READY tasks to their streams. Which ones, and when, decides jobs/order/refill.py.

The jobs stay locked from before the append until the commit: no other process can move these tasks meanwhile. A crash
after the append leaves a task READY with an entry: the next refill appends again, gets DUPLICATE, and goes on.
A crash before it leaves a READY task without an entry: it is its own outbox.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

import msgspec
import structlog
from django.db import connection, transaction

from dalston_queue import crash_points
from dalston_queue.broker.errors import BrokerError, Denied, Invalid, TooManyLanes, WrongKeyType
from dalston_queue.broker.protocol.keys import lane_name
from dalston_queue.broker.protocol.messages import TaskMessage
from dalston_queue.broker.protocol.types import Appended, Cause, Priority
from dalston_queue.jobs.lifecycle.advance import advance
from dalston_queue.jobs.lifecycle.dead_letters import Ending, end_tasks
from dalston_queue.jobs.lifecycle.states import JobStatus
from dalston_queue.jobs.lifecycle.status import Change, id_array, lock_jobs, move_tasks
from dalston_queue.jobs.order.large import within_bound
from dalston_queue.metrics.processes import DISPATCH_FAILURES
from dalston_queue.redis import get_broker

log = structlog.get_logger(__name__)


class ReadyTask(Protocol):
    """A task to queue, and its job."""

    @property
    def task_id(self) -> UUID: ...
    @property
    def job_id(self) -> UUID: ...


_ENTRIES = """
    SELECT t.id, t.job_id, t.stage, t.queue, t.task_type, t.attempt, t.effective_priority, t.required_capabilities,
           t.parameters, t.timeout_seconds, t.first_enqueued_at, t.event_seq, t.deliveries, t.node_losses, j.trace_id,
           cardinality(t.after) > 0
    FROM dalston_task t JOIN dalston_job j ON j.id = t.job_id
    WHERE t.id = ANY(%s::uuid[]) AND t.status = ANY(%s) AND t.job_id = ANY(%s::uuid[])"""

_JOBS_OF = "SELECT job_id FROM dalston_task WHERE id = ANY(%s)"
_INPUTS = """
    SELECT c.id, p.stage, p.result
    FROM dalston_task c JOIN dalston_task p ON p.job_id = c.job_id AND p.stage = ANY(c.after)
    WHERE c.id = ANY(%s) AND p.status = 'completed'"""


@transaction.atomic(savepoint=False)
def append_ready(tasks: Sequence[ReadyTask], now: datetime, *, skip_locked: bool = True) -> frozenset[UUID]:
    """Queue those of these tasks that are READY and whose jobs run, in this order; returns their ids. `skip_locked`
    leaves out those whose jobs another process has locked. What does not fit its project's bound of bytes stays READY.
    Raises Denied when Redis is full."""
    jobs = lock_jobs((task.job_id for task in tasks), skip_locked=skip_locked)
    running = [job.id for job in jobs.values() if job.status == JobStatus.RUNNING]
    messages = _messages([task.task_id for task in tasks], ["ready"], running, now) if running else []
    messages = within_bound(messages)
    if not messages:
        return frozenset()
    crash_points.point("dispatch.before_append")
    outcomes = _append(messages)
    crash_points.point("dispatch.appended")
    changes: dict[str, list[Change]] = {"enqueue": [], "rebuild": []}
    refused: list[Ending] = []
    for message, outcome in zip(messages, outcomes, strict=True):
        change = Change(task_id=UUID(message.task_id), attempt=message.attempt, at=now)
        if isinstance(outcome, WrongKeyType | TooManyLanes):
            continue  # the task stays READY: its lane is free again when another one is empty
        if isinstance(outcome, Invalid):
            refused.append(
                Ending(
                    task_id=change.task_id,
                    attempt=message.attempt,
                    at=now,
                    cause=Cause.REJECTED,
                    message=f"it can't be queued: {outcome}",
                    error_type=type(outcome).__name__,
                )
            )
        elif outcome is Appended.SUPERSEDED:
            # Redis is ahead of us: Postgres lost its last commits. Only a higher attempt than Redis knows can run.
            changes["rebuild"].append(change)
        else:
            changes["enqueue"].append(change)
    move_tasks("rebuild", changes["rebuild"])
    advance({moved.job_id for moved in end_tasks(refused)}, now)
    queued = frozenset(moved.task_id for moved in move_tasks("enqueue", changes["enqueue"]))
    crash_points.point("dispatch.queued")
    return queued


@transaction.atomic
def append_again(task_ids: Sequence[UUID], now: datetime) -> int:
    """Append the entries of QUEUED and RUNNING tasks that have none any more; returns how many."""
    with connection.cursor() as cursor:
        cursor.execute(_JOBS_OF, [list(task_ids)])
        jobs = lock_jobs(row[0] for row in cursor.fetchall())
    return _append(_messages(task_ids, ["queued", "running"], list(jobs), now)).count(Appended.ADDED)


def _messages(task_ids: Sequence[UUID], statuses: list[str], jobs: list[UUID], now: datetime) -> list[TaskMessage]:
    """The messages of those of these tasks that have one of these statuses, in the order of their ids here."""
    with connection.cursor() as cursor:
        cursor.execute(_ENTRIES, [id_array(task_ids), statuses, id_array(jobs)])
        rows_of = {row[0]: row for row in cursor.fetchall()}
        rows = [rows_of[task] for task in task_ids if task in rows_of]
        inputs: dict[UUID, dict[str, Any]] = {}
        if children := [row[0] for row in rows if row[-1]]:
            cursor.execute(_INPUTS, [children])
            for child, stage, result in cursor.fetchall():
                inputs.setdefault(child, {})[stage] = None if result is None else msgspec.Raw(result)
    return [_message(row, inputs.get(row[0], {}), now) for row in rows]


def _message(row: tuple[Any, ...], inputs: dict[str, Any], now: datetime) -> TaskMessage:
    task, job, stage, queue, task_type, attempt, priority, capabilities, parameters, timeout, *rest = row
    since, seq, deliveries, losses, trace, _ = rest
    return TaskMessage(
        task_id=str(task),
        job_id=str(job),
        queue=queue,
        stage=stage,
        task_type=task_type,
        attempt=attempt,
        priority=Priority(priority),
        required_capabilities=tuple(capabilities),
        parameters=msgspec.Raw(parameters),  # the JSON text of Postgres, not decoded
        inputs=inputs,
        timeout_ms=timeout * 1000,
        enqueued_at_ms=int((since or now).timestamp() * 1000),
        trace_id=trace,
        deliveries=deliveries,
        losses=losses,
        seq=seq,
    )


def _append(messages: list[TaskMessage]) -> list[Appended | Invalid | WrongKeyType]:
    """Append all in one call; if the broker refuses one, append one by one, to learn which. A lane that can't be used
    must not hold up the tasks of other lanes."""
    if not messages:
        return []
    broker = get_broker()
    try:
        return list(broker.append(messages))
    except (WrongKeyType, TooManyLanes) as error:
        log.error("tasks of a lane wait in postgres", error=str(error))
    except Invalid:
        pass
    except BrokerError as error:
        _count_failure(error)
        raise
    full: dict[str, TooManyLanes] = {}
    return [_append_one(message, full) for message in messages]


def _append_one(message: TaskMessage, full: dict[str, TooManyLanes]) -> Appended | Invalid | WrongKeyType:
    """`full`: lanes that were refused a moment ago; each refusal asks for all lanes of its queue."""
    try:
        lane = lane_name(message.queue, message.required_capabilities)
        if lane in full:
            return full[lane]
        [outcome] = get_broker().append([message])
        return outcome
    except BrokerError as error:
        _count_failure(error)
        if isinstance(error, TooManyLanes):
            full[lane] = error
        if isinstance(error, Invalid | WrongKeyType):
            return error
        raise


_REASONS: dict[type[BrokerError], str] = {Invalid: "refused", WrongKeyType: "wrong_key_type", Denied: "full"}


def _count_failure(error: BrokerError) -> None:
    reason = next((reason for kind, reason in _REASONS.items() if isinstance(error, kind)), "unavailable")
    DISPATCH_FAILURES.labels(reason).inc()

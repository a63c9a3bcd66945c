"""Applies a batch of events in one transaction, in few statements.

The events of one task are applied in the order of their (attempt, seq), one per round; a round is one statement per
transition. An event that arrives late, twice or in the wrong order finds no row to move, and has no effect.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from random import SystemRandom
from uuid import UUID

import msgspec
from django.db import connection, transaction

from dalston_queue.artifacts.reference import references_in
from dalston_queue.broker.protocol.messages import ErrorInfo, Event
from dalston_queue.broker.protocol.types import Cause, EventKind, Priority
from dalston_queue.broker.protocol.validate import MAX_DEPTH, json_too_deep, moment, too_deep
from dalston_queue.jobs.artifacts import add_results
from dalston_queue.jobs.errors import InvalidJob
from dalston_queue.jobs.lifecycle import dag
from dalston_queue.jobs.lifecycle.advance import Advanced, advance, make_stages_ready
from dalston_queue.jobs.lifecycle.dead_letters import Ending, end_tasks
from dalston_queue.jobs.lifecycle.retry import Attempt, Cancel, Exhausted, Retry, RetryPolicy
from dalston_queue.jobs.lifecycle.status import Change, Moved, claim_locked_jobs, id_array, lock_jobs, move_tasks
from dalston_queue.jobs.submit import lanes
from dalston_queue.jobs.submit.rows import NewTask, insert_tasks
from dalston_queue.jobs.submit.spec import StageSpec, stage_from
from dalston_queue.jobs.submit.storable import holds_nul
from dalston_queue.jobs.submit.submit import OfJob, task_row
from dalston_queue.models import Task

_encode = msgspec.json.Encoder().encode
_jitter = SystemRandom().random
Handler = Callable[[list[Event], datetime], list[Moved]]


@transaction.atomic
def apply(events: Sequence[Event], now: datetime) -> Advanced:
    """Apply these events; returns what has to be done after the commit."""
    jobs = lock_jobs({UUID(event.job_id) for event in events})
    touched: set[UUID] = set()
    left: set[str] = set()
    started: Counter[tuple[str, str]] = Counter()
    created = {UUID(event.job_id) for event in events if event.kind is EventKind.JOB_CREATED}
    claimed = claim_locked_jobs([job for job in jobs.values() if job.id in created], now)
    starts = starts_before_their_end(events)
    folded = {id(start) for start in starts.values()}
    handlers: dict[EventKind, Handler] = {**HANDLERS, EventKind.TASK_COMPLETED: partial(_completed, starts=starts)}
    moving = (event for event in events if event.kind is not EventKind.JOB_CREATED and id(event) not in folded)
    for batch in rounds(moving):
        by_kind: dict[EventKind, list[Event]] = defaultdict(list)
        for event in batch:
            by_kind[event.kind].append(event)
        for kind, same in by_kind.items():
            moved = handlers[kind](same, now)
            left.update(move.lane for move in moved)
            if kind is EventKind.TASK_STARTED:
                started.update((move.lane, move.tier) for move in moved)
            else:
                touched.update(move.job_id for move in moved)
                started.update((move.lane, move.tier) for move in moved if str(move.task_id) in starts)
    advanced = advance(touched, now)
    advanced.ready += make_stages_ready(claimed, now)
    advanced.left |= left
    advanced.started += started
    return advanced


def starts_before_their_end(events: Iterable[Event]) -> dict[str, Event]:
    """By task the start that came with its completion: the next event of the same attempt. Both are one move. Events
    that came more than once, or of more than one delivery, are applied one by one."""
    of_task: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        of_task[event.task_id].append(event)
    return {
        task: its_events[0]
        for task, its_events in of_task.items()
        if [event.kind for event in its_events] == [EventKind.TASK_STARTED, EventKind.TASK_COMPLETED]
        and its_events[0].attempt == its_events[1].attempt
        and its_events[0].seq < its_events[1].seq
    }


def rounds(events: Iterable[Event]) -> list[list[Event]]:
    """Split events into rounds with at most one event per task, the events of one task in order over the rounds."""
    of_task: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        of_task[event.task_id].append(event)
    result: list[list[Event]] = []
    for its_events in of_task.values():
        for index, event in enumerate(sorted(its_events, key=lambda event: (event.attempt, event.seq))):
            if index == len(result):
                result.append([])
            result[index].append(event)
    return result


def _at(event: Event) -> datetime:
    return moment(event.at_ms)


def _change(event: Event, **more: object) -> Change:
    return Change(
        task_id=UUID(event.task_id),
        attempt=event.attempt,
        at=_at(event),
        seq=event.seq,
        engine_id=event.engine_id,
        deliveries=event.deliveries,
        **more,  # type: ignore[arg-type]
    )


def _started(events: list[Event], _now: datetime) -> list[Moved]:
    return move_tasks("start", [_change(event) for event in events])


def _completed(events: list[Event], now: datetime, starts: Mapping[str, Event]) -> list[Moved]:
    """Complete the tasks, with their starts if those came in the same batch, and add the stages that their results ask
    for. A result that can't be stored or applied makes its task a dead letter: another attempt would have the same."""
    endings: list[Ending] = []
    changes: list[Change] = []
    more: dict[UUID, list[NewTask]] = {}
    files: dict[UUID, set[str]] = {}
    for event in events:
        try:
            result = _storable(event.result)
            if stages := wanted_stages(event.result):
                more[UUID(event.task_id)] = added_tasks(UUID(event.job_id), UUID(event.task_id), stages)
            files[UUID(event.task_id)] = references_in(bytes(result))
            changes.append(_completion(event, result, starts.get(event.task_id)))
        except _InvalidResult as error:
            endings.append(_refused(event, f"its result {error}", "InvalidResult"))
        except InvalidJob as error:
            endings.append(_refused(event, f"its result asks for stages: {error}", "InvalidJob"))
    refused = {str(ending.task_id) for ending in endings}
    _started([start for task, start in starts.items() if task in refused], now)
    moved = move_tasks("complete", changes)
    if added := [row for move in moved for row in more.get(move.task_id, ())]:
        insert_tasks(added, now)
    _keep_files(moved, files)
    return moved + end_tasks(endings)


def _keep_files(moved: Iterable[Moved], files: Mapping[UUID, set[str]]) -> None:
    """Record which files of the artifact store these results refer to: of accepted results only."""
    of_jobs: defaultdict[UUID, set[str]] = defaultdict(set)
    for move in moved:
        if refs := files.get(move.task_id):
            of_jobs[move.job_id] |= refs
    add_results(of_jobs)


def _completion(event: Event, result: msgspec.Raw, start: Event | None) -> Change:
    if start is None:
        return _change(event, result=result)
    return _change(event, result=result, start_at=_at(start), start_seq=start.seq)


class _InvalidResult(Exception):
    """The message completes the sentence "its result …"."""


def _storable(result: object) -> msgspec.Raw:
    """The result as the JSON that Postgres will store."""
    encoded = _encode(result)
    if json_too_deep(encoded):
        raise _InvalidResult(f"is nested deeper than {MAX_DEPTH} levels; return it as text or as an artifact")
    if holds_nul(encoded.decode()):
        raise _InvalidResult("holds a NUL character, which Postgres can't store")
    return msgspec.Raw(encoded)


def _refused(event: Event, message: str, error_type: str) -> Ending:
    return _ending(event, ErrorInfo(message=message, type=error_type, cause=Cause.REJECTED), "")


def _recovered(events: list[Event], _now: datetime) -> list[Moved]:
    changes = []
    for event in events:
        error = event.error or ErrorInfo(message="", cause=Cause.DRAINED)
        changes.append(_change(event, node_losses=event.losses, cause=error.cause, message=error.message))
    return move_tasks("recover", changes)


def _cancelled(events: list[Event], _now: datetime) -> list[Moved]:
    return move_tasks(
        "cancel", [_change(event, cause=Cause.CANCELLED, message=_error(event).message) for event in events]
    )


def _failed(events: list[Event], now: datetime) -> list[Moved]:
    """Ask the retry policy about each event, then apply its verdicts in bulk."""
    policy = RetryPolicy.from_settings()
    attempts = _attempts(events)
    endings: list[Ending] = []
    changes: dict[str, list[Change]] = {"retry": [], "cancel": []}
    for event in events:
        attempt = attempts.get(UUID(event.task_id))
        if attempt is None:
            continue
        error = _error(event)
        verdict = policy.decide(
            attempt,
            error.cause,
            now,
            jitter=_jitter(),
            retry_after_s=error.retry_after_s,
            retriable=error.retriable,
        )
        if isinstance(verdict, Retry) and event.kind is EventKind.TASK_EXHAUSTED:
            verdict = Exhausted("the broker found its delivery budget used up")
        match verdict:
            case Retry(at, timeout_seconds, charged):
                changes["retry"].append(
                    _change(
                        event,
                        cause=error.cause,
                        message=error.message,
                        error_type=error.type,
                        retriable=error.retriable,
                        scheduled_at=at,
                        timeout_seconds=timeout_seconds,
                        charge=int(charged),
                    )
                )
            case Cancel():
                changes["cancel"].append(
                    _change(event, cause=error.cause, message=error.message, error_type=error.type)
                )
            case Exhausted(why):
                endings.append(_ending(event, error, why))
    moved = end_tasks(endings)
    for transition, its_changes in changes.items():
        moved += move_tasks(transition, its_changes)
    return moved


def _dead_lettered(events: list[Event], _now: datetime) -> list[Moved]:
    return end_tasks([_ending(event, _error(event), "") for event in events])


HANDLERS: dict[EventKind, Handler] = {
    EventKind.TASK_STARTED: _started,
    EventKind.TASK_COMPLETED: partial(_completed, starts={}),
    EventKind.TASK_FAILED: _failed,
    EventKind.TASK_EXHAUSTED: _failed,
    EventKind.TASK_CANCELLED: _cancelled,
    EventKind.TASK_RECOVERED: _recovered,
    EventKind.TASK_RELEASED: _recovered,
    EventKind.TASK_DEAD_LETTERED: _dead_lettered,
}

_ATTEMPTS = """
    SELECT id, priority, retry_count, max_retries, timeout_seconds, cancel_requested_at IS NOT NULL
    FROM dalston_task WHERE id = ANY(%s::uuid[])"""


def _attempts(events: list[Event]) -> dict[UUID, Attempt]:
    reported = {UUID(event.task_id): event for event in events}
    with connection.cursor() as cursor:
        cursor.execute(_ATTEMPTS, [id_array(reported)])
        return {
            task: Attempt(
                priority=Priority(priority),
                retry_count=retry_count,
                max_retries=max_retries,
                deliveries=reported[task].deliveries,
                losses=reported[task].losses,
                timeout_seconds=timeout_seconds,
                stopping=stopping,
            )
            for task, priority, retry_count, max_retries, timeout_seconds, stopping in cursor.fetchall()
        }


def _error(event: Event) -> ErrorInfo:
    error = event.error or ErrorInfo(message=f"{event.kind} came without an error message")
    if too_deep(error.evidence):
        return msgspec.structs.replace(error, evidence=f"left out: it is nested deeper than {MAX_DEPTH} levels")
    return error


def _ending(event: Event, error: ErrorInfo, why: str) -> Ending:
    return Ending(
        task_id=UUID(event.task_id),
        attempt=event.attempt,
        at=_at(event),
        cause=error.cause,
        message=f"{error.message} ({why})" if why else error.message,
        error_type=error.type,
        retriable=error.retriable,
        seq=event.seq,
        engine_id=event.engine_id,
        deliveries=event.deliveries,
        traceback=error.traceback,
        evidence=error.evidence,
        raw=event.raw,
    )


# A result may ask for more stages: `{"$stages": [{"stage": "transcribe_ch1", "after": ["split"]}, …]}`.
# They are added by the same code as those of a submission, in the transaction that completes the stage. A request that
# can't be met makes the stage a dead letter.
KEY = "$stages"


def wanted_stages(result: object) -> Sequence[StageSpec]:
    """The stages that a result asks for; none for an ordinary result. Raises InvalidJob."""
    if not isinstance(result, Mapping) or KEY not in result:
        return ()
    wanted = result[KEY]
    if not isinstance(wanted, list) or not wanted:
        raise InvalidJob(f"{KEY} is a list of stages, with at least one")
    return [stage_from(stage) for stage in wanted]


def added_tasks(job_id: UUID, parent: UUID, stages: Sequence[StageSpec]) -> list[NewTask]:
    """The rows of these stages, ready to insert; none if the job is gone. The job must be locked. Raises InvalidJob for
    stages that don't fit the job, or can't be stored. A stage inherits the concurrency key of the task that asks."""
    asks = Task.objects.filter(id=parent, job_id=job_id)
    row = asks.values_list("project_id", "job__priority", "concurrency_key").first()
    if row is None:
        return []
    dag.check(stages, set(Task.objects.filter(job_id=job_id).values_list("stage", flat=True)))
    of_job = OfJob(job_id, row[0], Priority(row[1]), row[2])
    rows = [task_row(stage, of_job) for stage in stages]
    [refused] = lanes.register([{each.lane for each in rows}], row[0])
    if refused:
        raise refused
    return rows

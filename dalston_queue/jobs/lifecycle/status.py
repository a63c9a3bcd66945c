"""The only module that changes a status: each transition is one guarded statement; a task's also writes its history.

A statement that moves tasks into or out of a lane also writes by how many its depth changes (models/order.py).

The rules, which every caller follows:

1. First lock the jobs, in id order, in a statement of their own (`lock_jobs`). Two parents that finish together would
   otherwise each see the other unfinished, and unsorted bulk updates deadlock.
2. Then move tasks. A row moves only from a state the table allows, only at the attempt the caller saw, and, if an
   engine reported it, only when the event is newer than the last one applied. No row back means that another process
   was faster: that is an answer, not an error.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import Any
from uuid import UUID

import msgspec
from django.db import connection, transaction

from dalston_queue.jobs.lifecycle import transition_log, transition_spans
from dalston_queue.jobs.lifecycle.states import JOB_OVER, JOB_TRANSITIONS, TASK_OVER, TASK_TRANSITIONS
from dalston_queue.jobs.submit.storable import without_nul
from dalston_queue.metrics import tasks as metrics


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task to move. Which of the later fields are written depends on the transition: see _WRITES.

    Changes travel to Postgres as one JSON text, which costs a fraction of an array per column.
    """

    task_id: UUID
    attempt: int
    at: datetime
    seq: int = 0  # of the event that reported it; 0 when no engine did
    engine_id: str = ""
    deliveries: int | None = None
    cause: str = ""
    message: str = ""
    error_type: str = ""
    retriable: bool | None = None
    result: msgspec.Raw | None = None
    scheduled_at: datetime | None = None
    timeout_seconds: int | None = None
    node_losses: int | None = None
    charge: int = 0  # retries used
    keep_retries: bool = False  # of a replay
    parameters: msgspec.Raw | None = None
    priority: str | None = None
    # Of a completion: its start, if that was reported in the same batch. One UPDATE, two rows of history.
    start_at: datetime | None = None
    start_seq: int | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """One task that moved. What metrics count of it is in the later fields; times in seconds."""

    task_id: UUID
    job_id: UUID
    attempt: int
    was: str
    lane: str
    tier: str
    old_tier: str
    trace_id: str
    priority: str
    cause: str
    with_start: bool  # its start came with its completion
    waited_s: float | None  # from ready to its first start
    claim_s: float | None  # from the window to the claim
    ran_s: float | None  # the attempt that ended
    took_s: float | None  # from the submission to its end


@dataclass(frozen=True, slots=True)
class LockedJob:
    id: UUID
    status: str
    trace_id: str


# Fields of Change beyond those that every statement reads, as columns.
_EXTRA = {
    "error_type": "text",
    "retriable": "boolean",
    "result": "jsonb",
    "scheduled_at": "timestamptz",
    "timeout_seconds": "int",
    "node_losses": "int",
    "charge": "int",
    "keep_retries": "boolean",
    "parameters": "jsonb",
    "priority": "text",
    "start_at": "timestamptz",
}

_SEEN = "event_seq = greatest(t.event_seq, v.seq), deliveries = coalesce(v.deliveries, t.deliveries)"
_ERROR = (
    "error = v.message, error_type = coalesce(v.error_type, ''), error_cause = v.cause, error_retriable = v.retriable"
)
_CLEAR = "error = '', error_type = '', error_cause = '', error_retriable = NULL"
_NEXT_ATTEMPT = "attempt = t.attempt + 1, event_seq = 0, assigned_worker_id = ''"
_FRESH = (
    "deliveries = 0, node_losses = 0, result = NULL,"
    " started_at = NULL, finished_at = NULL, cancel_requested_at = NULL, cancel_sent_at = NULL"
)
_FIRST = "first_enqueued_at = coalesce(t.first_enqueued_at, v.at)"

# What a move writes besides the status: v is the change, t the row.
_WRITES: dict[str, str] = {
    "make_ready": _FIRST,
    "defer": "",
    "due": f"{_FIRST}, scheduled_at = NULL",
    "promote": "effective_priority = coalesce(v.priority, t.effective_priority)",
    "withdraw": "",
    "enqueue": "queued_at = v.at",
    "start": f"{_SEEN}, started_at = v.at, assigned_worker_id = v.engine_id",
    "recover": f"{_SEEN}, queued_at = v.at, assigned_worker_id = '',"
    " node_losses = coalesce(v.node_losses, t.node_losses)",
    "complete": f"{_SEEN}, {_CLEAR}, result = v.result, finished_at = v.at, assigned_worker_id = v.engine_id,"
    " started_at = coalesce(v.start_at, t.started_at, v.at)",
    "retry": f"{_ERROR}, {_NEXT_ATTEMPT}, deliveries = 0, node_losses = 0,"
    " retry_count = t.retry_count + coalesce(v.charge, 0), scheduled_at = v.scheduled_at,"
    " timeout_seconds = coalesce(v.timeout_seconds, t.timeout_seconds)",
    "rebuild": _NEXT_ATTEMPT,
    "fail": f"{_SEEN}, {_ERROR}, finished_at = v.at",
    "dead_letter": f"{_SEEN}, {_ERROR}, finished_at = v.at",
    "cancel": f"{_SEEN}, {_ERROR}, finished_at = v.at",
    "skip": f"{_ERROR}, finished_at = v.at",
    "replay": f"{_NEXT_ATTEMPT}, {_FRESH}, {_CLEAR}, first_enqueued_at = v.at,"
    " retry_count = CASE WHEN v.keep_retries THEN t.retry_count ELSE 0 END,"
    " parameters = coalesce(v.parameters, t.parameters), priority = coalesce(v.priority, t.priority),"
    " effective_priority = coalesce(v.priority, t.priority)",
    "reopen": f"{_NEXT_ATTEMPT}, {_FRESH}, {_CLEAR}, retry_count = 0, scheduled_at = NULL, first_enqueued_at = NULL,"
    " effective_priority = t.priority",
}


# The steps of a move, as rows of history: itself, and for a completion its start before it.
_STEP = "(%(name)s, was, %(target)s, at)"
_START_BEFORE = """
    SELECT 'start', was, 'running', start_at WHERE start_seq > old_seq
    UNION ALL
    SELECT %(name)s, CASE WHEN start_seq > old_seq THEN 'running' ELSE was END, %(target)s, at"""

# By how many the tasks of each lane, tier and project have changed. Every transition begins or ends in one that counts.
_DEPTH = """
        , depth AS (
            INSERT INTO dalston_depth (lane, tier, project_id, pending, ready, queued, running)
            SELECT lane, tier, project_id, sum(pending), sum(ready), sum(queued), sum(running)
            FROM (
                SELECT lane, tier, project_id, (%(target)s IN ('pending', 'scheduled'))::int AS pending,
                       (%(target)s = 'ready')::int AS ready, (%(target)s = 'queued')::int AS queued,
                       (%(target)s = 'running')::int AS running
                FROM moved
                UNION ALL
                SELECT lane, old_tier, project_id, -(was IN ('pending', 'scheduled'))::int, -(was = 'ready')::int,
                       -(was = 'queued')::int, -(was = 'running')::int
                FROM moved
            ) AS change
            GROUP BY lane, tier, project_id
            HAVING sum(pending) <> 0 OR sum(ready) <> 0 OR sum(queued) <> 0 OR sum(running) <> 0
        )"""
# What metrics observe: `start` is the condition under which this move starts the task, `at` the time of its start.
_SECONDS = "extract(epoch FROM {0})::float8"
_FIRST_START = "t.retry_count = 0 AND t.deliveries = 0 AND t.node_losses = 0"
_NO_TIME = "NULL::float8"


def _starts(condition: str, at: str) -> str:
    """The wait until a task's first start, and from its window to any start."""
    waited = _SECONDS.format(f"{at} - t.first_enqueued_at")
    claim = _SECONDS.format(f"{at} - t.queued_at")
    return f"""CASE WHEN {condition} AND {_FIRST_START} THEN {waited} END AS waited_s,
                      CASE WHEN {condition} THEN {claim} END AS claim_s"""


def _times(name: str, target: str) -> str:
    """The columns `with_start`, `waited_s`, `claim_s`, `ran_s` and `took_s` of a transition."""
    ends = target in TASK_OVER or name == "retry"
    ran = f"CASE WHEN o.status = 'running' THEN {_SECONDS.format('v.at - o.started_at')} END" if ends else _NO_TIME
    took = _SECONDS.format("v.at - t.created_at") if target in TASK_OVER else _NO_TIME
    with_start, starts = "false", f"{_NO_TIME} AS waited_s, {_NO_TIME} AS claim_s"
    if name == "start":
        starts = _starts("true", "v.at")
    elif name == "complete":
        with_start = "coalesce(v.start_seq > o.event_seq, false)"
        starts = _starts(with_start, "v.start_at")
        ran = _SECONDS.format("v.at - t.started_at")
    return f"{with_start} AS with_start, {starts}, {ran} AS ran_s, {took} AS took_s"


@cache
def _task_statement(name: str) -> str:
    """The statement of one transition. The row is joined to itself for the status before: its job is locked, so no
    other process can move it."""
    writes = _WRITES[name]
    extra = [field for field in _EXTRA if f"v.{field}" in writes]
    with_start = name == "complete"
    return f"""
        WITH v AS (
            SELECT task_id AS id, attempt, at, coalesce(seq, 0) AS seq, coalesce(engine_id, '') AS engine_id,
                   deliveries, coalesce(cause, '') AS cause, coalesce(message, '') AS message
                   {"".join(f", {field}" for field in extra)}
                   {", start_seq" if with_start else ""}
            FROM jsonb_to_recordset(%(changes)s::jsonb) AS change (
                task_id uuid, attempt int, at timestamptz, seq bigint, engine_id text, deliveries int,
                cause text, message text{"".join(f", {field} {_EXTRA[field]}" for field in extra)}
                {", start_seq bigint" if with_start else ""}
            )
        ), moved AS (
            UPDATE dalston_task t SET status = %(target)s{", " if writes else ""}{writes}
            FROM v JOIN dalston_task o ON o.id = v.id
            WHERE t.id = v.id AND t.status = ANY(%(sources)s) AND t.attempt = v.attempt
              AND (v.seq = 0 OR v.seq > t.event_seq)
            RETURNING t.id, t.job_id, t.attempt, o.status AS was, t.lane, t.tier, o.tier AS old_tier, t.project_id,
                      t.deliveries, v.engine_id, v.cause, v.message, v.at, t.priority,
                      {_times(name, TASK_TRANSITIONS[name].target)}
                      {", v.start_at, v.start_seq, o.event_seq AS old_seq" if with_start else ""}
        ), history AS (
            INSERT INTO dalston_task_event
                (task_id, transition, from_status, to_status, attempt, deliveries, engine_id, cause, message, at)
            SELECT id, step.transition, step.was, step.target, attempt, deliveries, engine_id, cause, message, step.at
            FROM moved CROSS JOIN LATERAL ({_START_BEFORE if with_start else f"VALUES {_STEP}"})
                AS step (transition, was, target, at)
        ){_DEPTH}
        SELECT id, job_id, attempt, was, lane, tier, old_tier,
               (SELECT trace_id FROM dalston_job j WHERE j.id = moved.job_id),
               priority, cause, with_start, waited_s, claim_s, ran_s, took_s
        FROM moved"""  # noqa: S608 - built from the tables above, nothing else


def move_tasks(name: str, changes: Sequence[Change]) -> list[Moved]:
    """Move tasks by one transition; returns those that moved. Their jobs must be locked."""
    if not changes:
        return []
    _require_transaction()
    transition = TASK_TRANSITIONS[name]
    text = msgspec.json.encode(changes).decode()
    if name != "complete":
        # Postgres can't hold U+0000. In a message it may be replaced; a result is stored as it is or not at all.
        text = without_nul(text)
    arguments: dict[str, Any] = {
        "changes": text,
        "name": name,
        "target": transition.target,
        "sources": sorted(transition.sources),
    }
    with connection.cursor() as cursor:
        cursor.execute(_task_statement(name), arguments)
        moved = [Moved(*row) for row in cursor.fetchall()]
    kept = tuple(moved)  # until the commit: meanwhile the caller may add other moves to its list
    transition_log.tasks_moved(name, changes, kept)
    transition_spans.tasks_moved(name, changes, kept)
    if moved:
        transaction.on_commit(partial(metrics.count, name, str(transition.target), kept), robust=True)
    return moved


def id_array(ids: Iterable[UUID]) -> str:
    """Ids as the text of a uuid[] (compare with `= ANY(%s::uuid[])`): much cheaper to send than a list."""
    return "{" + ",".join(map(str, ids)) + "}"


LOCK_JOBS = "SELECT id, status, trace_id FROM dalston_job WHERE id = ANY(%s::uuid[]) ORDER BY id FOR NO KEY UPDATE"
LOCK_FREE_JOBS = LOCK_JOBS + " SKIP LOCKED"


def lock_jobs(job_ids: Iterable[UUID], *, skip_locked: bool = False) -> dict[UUID, LockedJob]:
    """Lock the jobs for the rest of the transaction. `skip_locked` leaves out those that another process has locked."""
    _require_transaction()
    with connection.cursor() as cursor:
        cursor.execute(LOCK_FREE_JOBS if skip_locked else LOCK_JOBS, [id_array(set(job_ids))])
        return {row[0]: LockedJob(*row) for row in cursor.fetchall()}


_JOB_ERROR = "error = coalesce(%(errors)s::jsonb ->> j.id::text, j.error)"
_JOB_WRITES = {
    "claim": "started_at = %(now)s",
    "wind_down": f"cancel_requested_at = coalesce(j.cancel_requested_at, %(now)s), {_JOB_ERROR}",
    "complete": "finished_at = %(now)s, progress = 1",
    "fail": f"finished_at = %(now)s, {_JOB_ERROR}",
    "cancel": "finished_at = %(now)s",
    "replay": "finished_at = NULL, cancel_requested_at = NULL, error = ''",
}

# The webhook of a job that ends is made by the statement that ends it: one for each end, whatever crashes afterwards.
_WEBHOOK = """
    INSERT INTO dalston_webhook_delivery
        (id, job_id, project_id, url, origin, status, error, finished_at, state, attempts, next_at, last_error)
    SELECT gen_random_uuid(), id, project_id, callback_url,
           coalesce(substring(callback_url FROM '^[^/]*//[^/?]*'), ''), status, error, finished_at, 'pending', 0,
           finished_at, ''
    FROM moved WHERE callback_url <> ''"""


def move_jobs(
    name: str, job_ids: Iterable[UUID], now: datetime, errors: Mapping[UUID, str] | None = None
) -> list[UUID]:
    """Move locked jobs by one transition; returns those that moved. `errors`: why a job fails."""
    wanted = list(job_ids)
    if not wanted:
        return []
    _require_transaction()
    transition = JOB_TRANSITIONS[name]
    webhook = f", webhook AS ({_WEBHOOK})" if transition.target in JOB_OVER else ""
    statement = f"""
        WITH moved AS (
            UPDATE dalston_job j SET status = %(target)s, {_JOB_WRITES[name]}
            WHERE j.id = ANY(%(ids)s::uuid[]) AND j.status = ANY(%(sources)s)
            RETURNING j.id, j.trace_id, j.project_id, j.callback_url, j.status, j.error, j.finished_at
        ){webhook}
        SELECT id, trace_id FROM moved"""  # noqa: S608 - built from the tables above, nothing else
    arguments: dict[str, Any] = {
        "ids": id_array(wanted),
        "errors": msgspec.json.encode({str(job): why for job, why in (errors or {}).items()}).decode(),
        "now": now,
        "target": transition.target,
        "sources": sorted(transition.sources),
    }
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        moved: list[tuple[UUID, str]] = cursor.fetchall()
    transition_log.jobs_moved(name, moved)
    return [job for job, _ in moved]


def claim_locked_jobs(jobs: Collection[LockedJob], now: datetime) -> list[UUID]:
    """Claim those of these locked jobs that are pending; returns them."""
    claimed = move_jobs("claim", [job.id for job in jobs], now)
    if len(claimed) < len(jobs):
        mine = set(claimed)
        transition_log.jobs_not_claimed([job for job in jobs if job.id not in mine])
    return claimed


def _require_transaction() -> None:
    if not connection.in_atomic_block:
        raise RuntimeError("lifecycle changes status only inside a transaction that has locked the jobs first")

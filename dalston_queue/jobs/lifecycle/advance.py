"""Advances jobs after their tasks moved: makes dependents ready, ends jobs, asks tasks to stop.

Runs inside the transaction that changed the tasks, with the jobs locked. The rules are those of `dag.verdict`.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import connection

from dalston_queue.jobs.lifecycle.dag import Tally, verdict
from dalston_queue.jobs.lifecycle.states import JobStatus
from dalston_queue.jobs.lifecycle.status import (
    Change,
    Moved,
    claim_locked_jobs,
    id_array,
    lock_jobs,
    move_jobs,
    move_tasks,
)


@dataclass(slots=True)
class Advanced:
    """What has to happen after the commit. Polling finds each of them too, should this process die first."""

    ready: list[Moved] = field(default_factory=list)  # tasks that wait in their lanes now
    ended: list[UUID] = field(default_factory=list)  # jobs that are over
    stopping: list[UUID] = field(default_factory=list)  # jobs whose engines must be asked to stop
    left: set[str] = field(default_factory=set)  # lanes that tasks have left, or were started from
    started: Counter[tuple[str, str]] = field(
        default_factory=Counter
    )  # tasks that engines have started, by lane and tier

    @property
    def lanes(self) -> set[str]:
        """The lanes whose windows may want a refill."""
        return self.left.union(moved.lane for moved in self.ready)

    @property
    def only_ready(self) -> list[Moved]:
        """The tasks that became READY, the oldest first, if that is all that happened, and they are of one lane and
        tier."""
        if self.left or len({(moved.lane, moved.tier) for moved in self.ready}) != 1:
            return []
        return sorted(self.ready, key=lambda moved: moved.task_id)

    def add(self, other: "Advanced") -> None:
        self.ready += other.ready
        self.ended += other.ended
        self.stopping += other.stopping
        self.left |= other.left
        self.started += other.started


# LATERAL: the tasks of one job after the other, by index. As a join, a small table would be read whole.
_TALLY = """
    SELECT j.id, j.status, tally.*
    FROM dalston_job j CROSS JOIN LATERAL (
        SELECT count(*),
               count(*) FILTER (WHERE t.status IN ('pending', 'scheduled', 'ready')),
               count(*) FILTER (WHERE t.status IN ('queued', 'running')),
               count(*) FILTER (WHERE t.required AND t.status = 'dead_letter'),
               count(*) FILTER (WHERE t.required AND t.status = 'cancelled'),
               count(*) FILTER (WHERE t.status = 'completed'),
               coalesce(sum(t.weight) FILTER (WHERE t.finished_at IS NOT NULL) / sum(t.weight), 0),
               min('stage ' || t.stage || ': ' || t.error) FILTER (WHERE t.required AND t.status = 'dead_letter')
        FROM dalston_task t WHERE t.job_id = j.id
    ) AS tally
    WHERE j.id = ANY(%s::uuid[])"""

# Stages whose parents are all over. An optional parent may also have failed: its dependents run without its result.
_UNBLOCKED = """
    SELECT c.id, c.attempt, c.scheduled_at > %s
    FROM dalston_task c
    WHERE c.job_id = ANY(%s::uuid[]) AND c.status = 'pending' AND NOT EXISTS (
        SELECT FROM dalston_task p
        WHERE p.job_id = c.job_id AND p.stage = ANY(c.after)
          AND NOT (p.status = 'completed' OR (NOT p.required AND p.finished_at IS NOT NULL))
    )"""

_WAITING = """
    SELECT id, attempt FROM dalston_task
    WHERE job_id = ANY(%s::uuid[]) AND status IN ('pending', 'scheduled', 'ready')"""

_PROGRESS = """
    UPDATE dalston_job j SET progress = v.progress
    FROM unnest(%s::uuid[], %s::float8[]) AS v (id, progress)
    WHERE j.id = v.id AND j.progress <> v.progress"""

_REQUEST_STOP = """
    UPDATE dalston_task SET cancel_requested_at = coalesce(cancel_requested_at, %s)
    WHERE job_id = ANY(%s::uuid[]) AND (%s::uuid IS NULL OR id = %s) AND status IN ('queued', 'running')
    RETURNING id, status"""


def claim_jobs(job_ids: Collection[UUID], now: datetime, *, skip_locked: bool = False) -> Advanced:
    """Claim pending jobs: the one orchestrator whose transaction moves a job makes its first stages ready."""
    locked = lock_jobs(job_ids, skip_locked=skip_locked)
    return Advanced(ready=make_stages_ready(claim_locked_jobs(locked.values(), now), now))


def advance(job_ids: Collection[UUID], now: datetime) -> Advanced:
    """Bring locked jobs up to date with their tasks."""
    done = Advanced()
    if not job_ids:
        return done
    verdicts: dict[str, list[UUID]] = {}
    errors: dict[UUID, str] = {}
    progress: dict[UUID, float] = {}
    unblocked: list[UUID] = []
    with connection.cursor() as cursor:
        cursor.execute(_TALLY, [id_array(job_ids)])
        for job_id, status, total, waiting, at_engine, died, cancelled, completed, share, error in cursor.fetchall():
            tally = Tally(JobStatus(status), total, waiting, at_engine, died, cancelled, completed)
            move = verdict(tally)
            if move is not None:
                verdicts.setdefault(move, []).append(job_id)
            elif waiting and tally.status is JobStatus.RUNNING:
                unblocked.append(job_id)
            if total == 0:
                errors[job_id] = "it has no tasks"
            elif error is not None:
                errors[job_id] = error
            if total > 1 and move != "complete":
                progress[job_id] = share
        if progress:
            cursor.execute(_PROGRESS, [list(progress), list(progress.values())])
    _end_early(verdicts, now)
    for move, jobs in verdicts.items():
        moved = move_jobs(move, jobs, now, {job: errors[job] for job in jobs if job in errors})
        (done.stopping if move == "wind_down" else done.ended).extend(moved)
    done.ready = make_stages_ready(unblocked, now)
    return done


def make_stages_ready(job_ids: Collection[UUID], now: datetime) -> list[Moved]:
    """Make every stage of these running jobs whose parents are all over READY, or scheduled for its own time."""
    if not job_ids:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_UNBLOCKED, [now, id_array(job_ids)])
        rows = cursor.fetchall()
    later = [Change(task_id=task, attempt=attempt, at=now) for task, attempt, in_future in rows if in_future]
    at_once = [Change(task_id=task, attempt=attempt, at=now) for task, attempt, in_future in rows if not in_future]
    move_tasks("defer", later)
    return move_tasks("make_ready", at_once)


def request_stop(job_ids: Collection[UUID], now: datetime, *, only: UUID | None = None) -> dict[UUID, str]:
    """Mark the queued and running tasks of these jobs as asked to stop; returns the status of each. `only`: this task
    alone."""
    with connection.cursor() as cursor:
        cursor.execute(_REQUEST_STOP, [now, id_array(job_ids), only, only])
        return dict(cursor.fetchall())


def _end_early(verdicts: dict[str, list[UUID]], now: datetime) -> None:
    """In jobs that end early, skip the waiting tasks and mark the queued and running ones as asked to stop."""
    ending = [job for move in ("wind_down", "fail", "cancel") for job in verdicts.get(move, ())]
    if not ending:
        return
    request_stop(ending, now)
    with connection.cursor() as cursor:
        cursor.execute(_WAITING, [id_array(ending)])
        rows = cursor.fetchall()
    message = "its job ended before it could run"
    move_tasks("skip", [Change(task_id=task, attempt=attempt, at=now, message=message) for task, attempt in rows])

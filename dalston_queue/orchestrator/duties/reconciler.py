"""The reconciler: makes Redis agree with Postgres, which is the truth. Also run by `manage.py reconcile`.

A task that should have an entry in Redis and has none gets its next attempt. An entry that no live task needs is
removed. A job that nothing else will move is advanced. Each repair compares again under the job's lock. Dispatch holds
that lock too, so a record that is absent is absent for good, and no time threshold is needed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from dalston_queue import crash_points
from dalston_queue.broker import Broker
from dalston_queue.broker.orchestrator.events import clear_tombstones
from dalston_queue.broker.protocol.record import Record
from dalston_queue.broker.protocol.types import Cause, RecordState
from dalston_queue.ids import is_uuid
from dalston_queue.jobs.lifecycle.advance import advance
from dalston_queue.jobs.lifecycle.dead_letters import Ending, end_tasks
from dalston_queue.jobs.lifecycle.dispatch import append_again
from dalston_queue.jobs.lifecycle.states import JobStatus, TaskStatus
from dalston_queue.jobs.lifecycle.status import Change, Moved, id_array, lock_jobs, move_tasks
from dalston_queue.jobs.operator import pause
from dalston_queue.jobs.order.refill import refill
from dalston_queue.orchestrator.duties.report import Report, for_each
from dalston_queue.redis import get_broker

PAGE = 1000

QUEUES = "SELECT DISTINCT queue FROM dalston_task WHERE status IN ('queued', 'running')"
IN_REDIS = """
    SELECT id, job_id, attempt, status, project_id, concurrency_key FROM dalston_task
    WHERE queue = %s AND status IN ('queued', 'running') AND (project_id, concurrency_key, id) > (%s, %s, %s)
    ORDER BY project_id, concurrency_key, id LIMIT %s"""
_SAME = """
    SELECT id, job_id, attempt, status, cancel_requested_at IS NOT NULL FROM dalston_task
    WHERE id = ANY(%s::uuid[]) AND status IN ('queued', 'running')"""
_ROWS = "SELECT id, finished_at IS NOT NULL, attempt FROM dalston_task WHERE id = ANY(%s::uuid[])"
# Tasks that were rebuilt so often because the event of their settlement was lost, since they were last replayed.
_LOST_EVENTS = """
    SELECT e.task_id FROM dalston_task_event e
    WHERE e.task_id = ANY(%s::uuid[]) AND e.transition = 'rebuild' AND e.message = %s AND NOT EXISTS (
        SELECT FROM dalston_task_event later
        WHERE later.task_id = e.task_id AND later.id > e.id AND later.transition IN ('replay', 'reopen')
    )
    GROUP BY e.task_id HAVING count(*) >= %s"""
MAX_LOST_EVENTS = 3
# Jobs that nothing else will move: no task is queued or running, and none is scheduled or ready in a job that still
# dispatches. Includes jobs without any task.
STUCK_JOBS = """
    SELECT j.id FROM dalston_job j
    WHERE j.status IN ('running', 'cancelling') AND j.id > %s AND NOT EXISTS (
        SELECT FROM dalston_task t
        WHERE t.job_id = j.id AND (
            t.status IN ('queued', 'running') OR (j.status = 'running' AND t.status IN ('scheduled', 'ready'))
        )
    )
    ORDER BY j.id LIMIT %s"""

Row = tuple[UUID, UUID, int, str]
_FIRST = UUID(int=0)


class Discrepancy(StrEnum):
    NO_ENTRY = "in Postgres but not in Redis"
    OTHER_ATTEMPT = "Redis has another attempt"
    EVENT_LOST = "settled, but its event is gone"
    NO_OWNER = "running, but no engine has it"


# Repaired by a new attempt. With NO_OWNER the entry is fine, and only the row is behind.
REBUILT = frozenset({Discrepancy.NO_ENTRY, Discrepancy.OTHER_ATTEMPT, Discrepancy.EVENT_LOST})


def compare(status: str, attempt: int, record: Record | None, *, events_waiting: bool) -> Discrepancy | None:
    """Compare a row that should have an entry with its record. `events_waiting`: the queue has events that are not
    acknowledged yet, and the record's event may be among them."""
    if record is None:
        return Discrepancy.NO_ENTRY
    if record.attempt != attempt:
        return Discrepancy.OTHER_ATTEMPT
    if record.state is RecordState.SETTLED:
        return None if events_waiting else Discrepancy.EVENT_LOST
    if record.state is RecordState.WAITING and status == TaskStatus.RUNNING:
        return None if events_waiting else Discrepancy.NO_OWNER
    return None


def is_orphan(row: tuple[bool, int] | None, record: Record) -> bool:
    """True if no live task needs this record: there is no such task, it is over, or it is at a later attempt. `row`:
    whether the task is over, and its attempt."""
    if record.state is RecordState.SETTLED:
        return False  # applying its event removes the record
    if row is None:
        return True
    over, attempt = row
    return over or attempt > record.attempt


def reconcile(*, dry_run: bool = False, say: Callable[[str], None] | None = None) -> Report:
    """Compare everything and repair what differs. `say` is called with each finding; `dry_run` repairs nothing."""
    return _Run(get_broker(), dry_run, say or (lambda _: None)).run()


def restore_lost_data() -> Report:
    """Put back what Redis has lost: pause flags, and the entries of all QUEUED and RUNNING tasks. The rest of the
    reconciler's work can wait for its next run; this is bounded by the windows and the slots of engines."""
    return _Run(get_broker(), dry_run=False, say=lambda _: None).restore()


@dataclass(slots=True)
class _Run:
    broker: Broker
    dry_run: bool
    say: Callable[[str], None]
    report: Report = field(default_factory=Report)

    def run(self) -> Report:
        if not self.dry_run:
            self.report.note("pause flags", pause.restore())
            self._refill()
        self._ghosts()
        self._stuck_jobs()
        for_each(sorted({*self._column(QUEUES), *self.broker.queues()}), self._reconcile_queue)
        return self.report

    def restore(self) -> Report:
        self.report.note("pause flags", pause.restore())
        for_each(sorted(self._column(QUEUES)), self._rows_of)
        self._refill()
        return self.report

    def _reconcile_queue(self, queue: str) -> None:
        self._rows_of(queue)
        for page in self.broker.scan_records(queue, PAGE):
            self._orphans(queue, page)

    def _refill(self) -> None:
        self.report.note("ready without entry", refill(None, timezone.now()), repaired=False)

    def _ghosts(self) -> None:
        for stats in self.broker.snapshot().queues:
            if not all(lane.consistent for lane in stats.lanes):
                self._found("pending entries without payload", stats.queue, 0)
                if not self.dry_run:
                    self.report.note("pending entries without payload", self.broker.acknowledge_ghosts(stats.queue))

    # Postgres -> Redis

    def _rows_of(self, queue: str) -> None:
        with_entry = 0  # rows whose record is fine: their entries must exist
        entries_before = self._entries(queue)
        for rows in self._pages(queue):
            records = self.broker.records(queue, [str(row[0]) for row in rows])
            backlog = self._events_waiting(queue)
            wrong = [row for row in rows if compare(row[3], row[2], records.get(str(row[0])), events_waiting=backlog)]
            with_entry += sum(_has_entry(record) for record in records.values())
            if wrong:
                self._repair(queue, wrong, records)
        # Engines work while this counts, so a difference is only a suspicion: append checks each entry.
        if max(entries_before, self._entries(queue)) < with_entry:
            self._missing_entries(queue)

    def _missing_entries(self, queue: str) -> None:
        """A stream was deleted or trimmed by another program. Append checks each entry, and adds what is gone."""
        if self.dry_run:
            self._found("perhaps records without entry", f"queue {queue}", 1)
            return
        for rows in self._pages(queue):
            self.report.note("records without entry", append_again([row[0] for row in rows], timezone.now()))

    def _entries(self, queue: str) -> int:
        return sum(lane.length for stats in self.broker.snapshot([queue]).queues for lane in stats.lanes)

    def _repair(self, queue: str, rows: list[Row], seen: dict[str, Record]) -> None:
        if self.dry_run:
            for task, _, attempt, status in rows:
                kind = compare(status, attempt, seen.get(str(task)), events_waiting=False)
                self._found(str(kind), f"task {task} ({queue}, attempt {attempt})", 1)
            return
        ready, ended = self._repair_locked(queue, rows, seen)
        crash_points.point("reconciler.rebuilt")
        clear_tombstones(self.broker, queue, [(str(moved.task_id), moved.attempt) for moved in ended])
        refill({moved.lane for moved in ready}, timezone.now())

    @transaction.atomic
    def _repair_locked(self, queue: str, rows: list[Row], seen: dict[str, Record]) -> tuple[list[Moved], list[Moved]]:
        """Returns what is READY now, and what is over. A task that should stop gets no new attempt, for it would
        never be dispatched."""
        now = timezone.now()
        jobs = lock_jobs({job for _, job, _, _ in rows})
        with connection.cursor() as cursor:
            cursor.execute(_SAME, [id_array(row[0] for row in rows)])
            same: list[tuple[UUID, UUID, int, str, bool]] = [row for row in cursor.fetchall() if row[1] in jobs]
        records = self.broker.records(queue, [str(row[0]) for row in same])
        changes: dict[str, list[Change]] = {"rebuild": [], "recover": [], "cancel": []}
        for task, job, attempt, status, asked_to_stop in same:
            record = records.get(str(task))
            kind = compare(status, attempt, record, events_waiting=record != seen.get(str(task)))
            if kind is not None:
                self._found(kind, f"task {task} ({queue}, attempt {attempt})", 1)
                stopping = asked_to_stop or jobs[job].status == JobStatus.CANCELLING
                move = "recover" if kind not in REBUILT else "cancel" if stopping else "rebuild"
                cause = Cause.CANCELLED if move == "cancel" else ""
                changes[move].append(Change(task_id=task, attempt=attempt, at=now, message=str(kind), cause=cause))
        ended = move_tasks("cancel", changes["cancel"]) + self._end_after_lost_events(changes["rebuild"])
        move_tasks("recover", changes["recover"])
        rebuilt = move_tasks("rebuild", changes["rebuild"])  # tasks that were just ended don't move
        return rebuilt + advance({moved.job_id for moved in ended}, now).ready, ended

    def _end_after_lost_events(self, changes: list[Change]) -> list[Moved]:
        """End tasks whose event was lost MAX_LOST_EVENTS times before: another attempt would end the same way."""
        lost = [change for change in changes if change.message == Discrepancy.EVENT_LOST]
        if not lost:
            return []
        ids = id_array(change.task_id for change in lost)
        repeated = set(self._column(_LOST_EVENTS, ids, str(Discrepancy.EVENT_LOST), MAX_LOST_EVENTS))
        message = f"it was settled, but the event of it was gone, {MAX_LOST_EVENTS + 1} times"
        return end_tasks(
            [
                Ending(task_id=end.task_id, attempt=end.attempt, at=end.at, cause=Cause.ERROR, message=message)
                for end in lost
                if end.task_id in repeated
            ]
        )

    def _events_waiting(self, queue: str) -> bool:
        return any(stats.events_backlog > 0 for stats in self.broker.snapshot([queue]).queues)

    # Redis -> Postgres

    def _orphans(self, queue: str, page: dict[str, Record]) -> None:
        known = self._known(page)
        for task, record in page.items():
            if is_orphan(known.get(task), record):
                self._found("in Redis without a live task", f"task {task} ({queue}, attempt {record.attempt})", 1)
                if not self.dry_run:
                    self.broker.request_cancel(queue, task, record.attempt)

    def _known(self, page: dict[str, Record]) -> dict[str, tuple[bool, int]]:
        ids = [UUID(task) for task in page if is_uuid(task)]
        with connection.cursor() as cursor:
            cursor.execute(_ROWS, [id_array(ids)])
            return {str(task): (over, attempt) for task, over, attempt in cursor.fetchall()}

    # Jobs

    def _stuck_jobs(self) -> None:
        after = _FIRST
        while jobs := self._column(STUCK_JOBS, after, PAGE):
            after = jobs[-1]
            if self.dry_run:
                for job in jobs:
                    self._found("job that nothing will move", f"job {job}", 1)
                continue
            with transaction.atomic():
                locked = lock_jobs(jobs, skip_locked=True)
                advanced = advance(locked, timezone.now())
            self.report.note("job that nothing would move", len(advanced.ended))
            refill(advanced.lanes, timezone.now())

    def _pages(self, queue: str) -> Iterator[list[Row]]:
        after: tuple[UUID, str, UUID] = (_FIRST, "", _FIRST)
        while True:
            with connection.cursor() as cursor:
                cursor.execute(IN_REDIS, [queue, *after, PAGE])
                rows = cursor.fetchall()
            if not rows:
                return
            yield [row[:4] for row in rows]
            task, _, _, _, project_id, key = rows[-1]
            after = (project_id, key, task)

    def _column(self, statement: str, *arguments: UUID | int | str) -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute(statement, arguments)
            return [row[0] for row in cursor.fetchall()]

    def _found(self, kind: str, what: str, count: int) -> None:
        self.say(f"{kind}: {what}")
        self.report.note(kind, count, repaired=not self.dry_run)


def _has_entry(record: Record) -> bool:
    return record.state is not RecordState.SETTLED

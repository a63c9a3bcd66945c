"""The waiting tasks on a queue's page: the entries of its windows, and behind them what waits in Postgres."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import DatabaseError

from dalston_queue.broker.protocol.types import Tier
from dalston_queue.broker.protocol.validate import moment
from dalston_queue.broker.views.pages import LaneTier, WaitingEntry
from dalston_queue.dashboard.queue.query import QueueQuery, WindowEntry, lane_word
from dalston_queue.ids import is_uuid
from dalston_queue.jobs.queries.ready import Place, ReadyTask, ready_page
from dalston_queue.models import Task
from dalston_queue.redis import get_broker

WAITING_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Named:
    """A task's names in Postgres, and its share group; empty if Postgres has no such task or does not answer."""

    task_type: str = ""
    stage: str = ""
    job: str = ""
    job_id: str = ""
    project: str = ""
    concurrency_key: str = ""


UNNAMED = Named()


@dataclass(frozen=True, slots=True)
class WaitingLine:
    """A task in the window of its lane, or one that waits in Postgres until the window has room."""

    task_id: str  # empty: bytes that cannot be read
    job_id: str
    place: WindowEntry | Place
    named: Named
    lane: str
    attempt: int
    since: datetime

    @property
    def in_window(self) -> bool:
        return isinstance(self.place, WindowEntry)


@dataclass(frozen=True, slots=True)
class WaitingPage:
    lines: tuple[WaitingLine, ...]
    more: str  # the place after which the next page begins
    ready_known: bool  # Postgres answered


def window_page(queue: str, wanted: QueueQuery) -> list[WaitingEntry]:
    """The undelivered entries of the windows, one more than the page shows."""
    after, limit = wanted.waiting_after, WAITING_SHOWN + 1
    if isinstance(after, Place):
        return []
    broker = get_broker()
    if after is None or (wanted.lane and wanted.lane != after.lane):
        return broker.waiting(queue, lane_tier=wanted.lane, limit=limit)
    return broker.waiting(queue, lane_tier=after.lane, after=after.entry_id, limit=limit, onward=wanted.lane is None)


def waiting_page(
    queue: str, wanted: QueueQuery, entries: Iterable[WaitingEntry], names: Mapping[str, Named]
) -> WaitingPage:
    """These entries of the windows, and behind them what waits in Postgres."""
    lines = [_waiting_line(entry, names.get(entry.task_id, UNNAMED)) for entry in entries]
    ready = _ready_lines(queue, wanted, WAITING_SHOWN + 1 - len(lines))
    lines += ready or ()
    shown = tuple(lines[:WAITING_SHOWN])
    more = str(shown[-1].place) if len(lines) > WAITING_SHOWN else ""
    return WaitingPage(shown, more, ready_known=ready is not None)


def _ready_lines(queue: str, wanted: QueueQuery, limit: int) -> list[WaitingLine] | None:
    """The tasks that wait in Postgres, behind those of the windows; None if Postgres does not answer."""
    if limit <= 0:
        return []
    after = wanted.waiting_after if isinstance(wanted.waiting_after, Place) else None
    lane_tier = None if wanted.lane is None else _key(queue, wanted.lane)
    try:
        found = ready_page(queue, limit=limit, lane_tier=lane_tier, after=after)
    except DatabaseError:
        return None
    return [_ready_line(task) for task in found]


def _key(queue: str, lane: LaneTier) -> tuple[str, str]:
    """The lane and tier in Postgres."""
    return (f"{queue}@{lane.capabilities}" if lane.capabilities else queue), lane.tier


def _ready_line(task: ReadyTask) -> WaitingLine:
    lane = LaneTier(task.lane.partition("@")[2], Tier(task.tier))
    names = Named(task.task_type, task.stage, task.job, str(task.job_id), task.project, task.concurrency_key)
    return WaitingLine(
        task_id=str(task.task_id),
        job_id=str(task.job_id),
        place=task.place,
        named=names,
        lane=lane_word(lane),
        attempt=task.attempt,
        since=task.since,
    )


def _waiting_line(entry: WaitingEntry, named: Named) -> WaitingLine:
    return WaitingLine(
        task_id=entry.task_id,
        job_id=entry.job_id,
        place=WindowEntry(entry.lane_tier, entry.entry_id),
        named=named,
        lane=lane_word(entry.lane_tier),
        attempt=entry.attempt,
        since=moment(entry.enqueued_at_ms),
    )


def names_of(task_ids: Iterable[str]) -> dict[str, Named]:
    wanted = [task_id for task_id in task_ids if is_uuid(task_id)]
    try:
        rows = Task.objects.filter(id__in=wanted).values_list(
            "id", "task_type", "stage", "job__name", "job_id", "project__name", "concurrency_key"
        )
        return {str(row[0]): Named(row[1], row[2], row[3], str(row[4]), row[5], row[6]) for row in rows}
    except DatabaseError:
        return {}

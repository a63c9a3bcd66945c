"""What a stream's page shows, as plain values: a page of what engines hold, the front of the line, and the brake.

Nothing here reads all of anything: pages come from the sorted sets, from one engine's own list, or begin at an entry.
Values hold times, not ages. An engine renews what it holds each second; a row would then change with every tick, so
below FRESH_MS a renewal is just "fresh".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.protocol.moments import moment
from dalston_queue.broker.views.pages import LanePlace, PendingEntry, PendingOrder, WaitingEntry
from dalston_queue.dashboard.overview.read import latest
from dalston_queue.dashboard.overview.values import Lane, Overview
from dalston_queue.dashboard.queue.query import StreamQuery, lane_word
from dalston_queue.dashboard.task.read import ACTED_ON, Acting, acting_on
from dalston_queue.ids import is_uuid
from dalston_queue.jobs.queries.progress import reported
from dalston_queue.models import StagePause, Task
from dalston_queue.redis import get_broker

SHOWN = 50
HELD_BY_ONE = 256
"""The most that one engine can hold: its list needs no second page."""
IN_LINE = 20
FRESH_MS = 10_000


@dataclass(frozen=True, slots=True)
class Named:
    """What Postgres calls a task; empty if it does not know it, or does not answer."""

    task_type: str = ""
    stage: str = ""
    job: str = ""
    job_id: str = ""


UNNAMED = Named()


@dataclass(frozen=True, slots=True)
class HeldLine:
    task_id: str
    job_id: str
    entry_id: str
    named: Named
    lane: str
    owner: str
    attempt: int
    deliveries: int
    losses: int
    silent_since: datetime | None  # None: renewed within FRESH_MS
    lease_ends_at: datetime | None  # the same
    deadline_at: datetime | None
    percent: int | None
    message: str
    cancelling: bool


@dataclass(frozen=True, slots=True)
class LineLine:
    task_id: str  # empty: bytes that nobody can read
    job_id: str
    entry_id: str
    named: Named
    lane: str
    attempt: int
    since: datetime


@dataclass(frozen=True, slots=True)
class Brake:
    actor: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class StreamView:
    at: datetime
    queue: str
    known: bool  # Redis answered
    exists: bool
    lanes: tuple[Lane, ...]
    engines: int
    brake: Brake | None
    held: tuple[HeldLine, ...]
    total: int | None  # of what is held, by the chosen filter; None: not counted
    line: tuple[LineLine, ...]
    acting: Acting | None = None  # the task that the page is asked to act on
    undated: int = 0  # of what is held: without a deadline, and so not in the order of deadlines
    more_held: str = ""  # the entry after which the next page of a lane begins
    more_line: str = ""


def read_stream(queue: str, wanted: StreamQuery) -> StreamView:
    overview = latest.get()
    view = StreamView(
        at=timezone.now(),
        queue=queue,
        known=overview.redis is not None,
        exists=True,
        lanes=_lanes_of(overview, queue),
        engines=_engines_of(overview, queue),
        brake=_brake(queue),
        held=(),
        total=None,
        line=(),
    )
    if overview.redis is None:
        return view
    try:
        return _with_entries(view, wanted)
    except BrokerError:
        return replace(view, known=False)


def _with_entries(view: StreamView, wanted: StreamQuery) -> StreamView:
    held, total, more_held = _held(view.queue, wanted)
    by_deadline = wanted.order is PendingOrder.DEADLINE and not wanted.owner and not wanted.lane
    line = get_broker().waiting(view.queue, place=wanted.lane, after=wanted.line, limit=IN_LINE + 1)
    shown = line[:IN_LINE]
    names = _names([*(entry.task_id for entry in held), *(entry.task_id for entry in shown)])
    return replace(
        view,
        exists=bool(view.lanes) or view.engines > 0 or view.brake is not None,
        held=tuple(_held_line(entry, names.get(entry.task_id, UNNAMED)) for entry in held),
        total=total,
        undated=_running(view.queue) - (total or 0) if by_deadline else 0,
        line=tuple(_line_line(entry, names.get(entry.task_id, UNNAMED)) for entry in shown),
        acting=_acting(view.queue, wanted.task) if wanted.task else None,
        more_held=more_held,
        more_line=shown[-1].entry_id if wanted.lane and len(line) > IN_LINE else "",
    )


def _held(queue: str, wanted: StreamQuery) -> tuple[list[PendingEntry], int | None, str]:
    """A page, how many there are, and where the next page of a lane begins."""
    broker = get_broker()
    if wanted.owner:
        found = broker.held(queue, place=wanted.lane, engine_id=wanted.owner, limit=HELD_BY_ONE)
        return found, len(found), ""
    if wanted.lane:
        found = broker.held(queue, place=wanted.lane, after=wanted.after, limit=SHOWN + 1)
        return found[:SHOWN], None, found[SHOWN - 1].record.entry_id if len(found) > SHOWN else ""
    page = broker.pending(queue, order=wanted.order, offset=wanted.start, limit=SHOWN)
    # Among those that were renewed just now the order would change with each beat: they keep the order of their claims.
    in_order = page.entries if wanted.order is PendingOrder.DEADLINE else sorted(page.entries, key=_by_silence)
    return in_order, page.total, ""


def _by_silence(entry: PendingEntry) -> tuple[int, int, str]:
    record, fresh = entry.record, entry.idle_ms < FRESH_MS
    return (1, record.claimed_at_ms, entry.task_id) if fresh else (0, record.renewed_at_ms, entry.task_id)


def _running(queue: str) -> int:
    return get_broker().pending(queue, limit=1).total


def _acting(queue: str, task_id: str) -> Acting | None:
    try:
        task = Task.objects.select_related("job").only(*ACTED_ON).filter(pk=task_id, queue=queue).first()
    except DatabaseError:
        return None
    return None if task is None else acting_on(task, get_broker())


def _held_line(entry: PendingEntry, named: Named) -> HeldLine:
    record, fresh = entry.record, entry.idle_ms < FRESH_MS
    told = reported(record.progress)
    patience_ms = max(settings.DALSTON_ABSOLUTE_TIMEOUT_MS, record.deadline_ms - record.claimed_at_ms)
    return HeldLine(
        task_id=entry.task_id,
        job_id=record.job_id,
        entry_id=record.entry_id,
        named=named,
        lane=_lane_of(record.stream),
        owner=record.owner,
        attempt=record.attempt,
        deliveries=record.deliveries,
        losses=record.losses,
        silent_since=None if fresh else moment(record.renewed_at_ms),
        lease_ends_at=None if fresh else moment(record.renewed_at_ms) + timedelta(milliseconds=patience_ms),
        deadline_at=moment(record.deadline_ms) if record.deadline_ms else None,
        percent=None if told.fraction is None else round(100 * told.fraction),
        message=told.message,
        cancelling=bool(record.cancel),
    )


def _line_line(entry: WaitingEntry, named: Named) -> LineLine:
    since = moment(entry.enqueued_at_ms)
    return LineLine(entry.task_id, entry.job_id, entry.entry_id, named, lane_word(entry.place), entry.attempt, since)


def _lane_of(stream: str) -> str:
    return lane_word(LanePlace(*get_broker().home.keys.place_of(stream)))


def _names(task_ids: Iterable[str]) -> dict[str, Named]:
    wanted = [task_id for task_id in task_ids if is_uuid(task_id)]
    try:
        rows = Task.objects.filter(id__in=wanted).values_list("id", "task_type", "stage", "job__name", "job_id")
        return {str(row[0]): Named(row[1], row[2], row[3], str(row[4])) for row in rows}
    except DatabaseError:
        return {}


def _brake(queue: str) -> Brake | None:
    try:
        row = StagePause.objects.filter(queue=queue).first()
    except DatabaseError:
        return None
    return None if row is None else Brake(row.actor, row.reason, row.at)


def _lanes_of(overview: Overview, queue: str) -> tuple[Lane, ...]:
    return () if overview.redis is None else tuple(lane for lane in overview.redis.lanes if lane.queue == queue)


def _engines_of(overview: Overview, queue: str) -> int:
    if overview.redis is None:
        return 0
    return sum(queue in engine.queues for node in overview.redis.nodes for engine in node.engines)

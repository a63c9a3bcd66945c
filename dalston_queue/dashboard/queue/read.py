"""What a queue's page reads, as plain values: a page of running tasks, one of waiting tasks, and the pause.

No read grows with the queue: pages come from the sorted sets, from one engine's own list, or begin at an entry.
Values hold times, not ages. An engine renews its leases each second, and each renewal would resend the row, so a lease
that was renewed within FRESH_MS has no time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.protocol.validate import moment
from dalston_queue.broker.views.pages import LaneTier, PendingEntry, PendingOrder
from dalston_queue.dashboard.overview.read import with_queue
from dalston_queue.dashboard.overview.values import Lane, Overview
from dalston_queue.dashboard.parts.words import waiting_parts
from dalston_queue.dashboard.queue.query import QueueQuery, lane_word
from dalston_queue.dashboard.queue.waiting import UNNAMED, Named, WaitingPage, names_of, waiting_page, window_page
from dalston_queue.dashboard.task.read import TARGET_FIELDS, ActionTarget, action_target
from dalston_queue.jobs.queries.progress import parse_progress
from dalston_queue.models import StagePause, Task
from dalston_queue.redis import get_broker

SHOWN = 50
MAX_PER_ENGINE = 256
"""The capacity limit of an engine: its list needs no second page."""
FRESH_MS = 10_000


@dataclass(frozen=True, slots=True)
class RunningLine:
    task_id: str
    job_id: str
    entry_id: str
    named: Named
    lane: str
    owner: str
    attempt: int
    deliveries: int
    losses: int
    idle_since: datetime | None  # None: renewed within FRESH_MS
    lease_ends_at: datetime | None  # the same
    deadline_at: datetime | None
    percent: int | None
    message: str
    cancelling: bool


@dataclass(frozen=True, slots=True)
class Pause:
    actor: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class QueueView:
    at: datetime
    queue: str
    known: bool  # Redis answered
    exists: bool
    lanes: tuple[Lane, ...]
    engines: int
    pause: Pause | None
    running: tuple[RunningLine, ...]
    total: int | None  # running tasks that match the filter; None: not counted
    waiting: WaitingPage
    target: ActionTarget | None = None  # the task whose actions are shown
    undated: int = 0  # running tasks without a deadline, and so not in the order of deadlines
    more_running: str = ""  # the entry after which the next page of a lane begins
    parts: str = ""  # where all waiting tasks of the queue wait, in words


def read_queue(queue: str, wanted: QueueQuery) -> QueueView:
    overview = with_queue(queue)
    view = QueueView(
        at=timezone.now(),
        queue=queue,
        known=overview.redis is not None,
        exists=True,
        lanes=_lanes_of(overview, queue),
        engines=_engines_of(overview, queue),
        pause=_pause(queue),
        running=(),
        total=None,
        waiting=WaitingPage((), "", ready_known=True),
        parts=_parts(overview, queue),
    )
    if overview.redis is None:
        return view
    try:
        return _with_entries(view, wanted)
    except BrokerError:
        return replace(view, known=False)


def _with_entries(view: QueueView, wanted: QueueQuery) -> QueueView:
    running, total, more_running = _running_page(view.queue, wanted)
    by_deadline = wanted.order is PendingOrder.DEADLINE and not wanted.owner and not wanted.lane
    entries = window_page(view.queue, wanted)
    names = names_of([*(entry.task_id for entry in running), *(entry.task_id for entry in entries)])
    return replace(
        view,
        exists=bool(view.lanes) or view.engines > 0 or view.pause is not None,
        running=tuple(_running_line(entry, names.get(entry.task_id, UNNAMED)) for entry in running),
        total=total,
        undated=_running(view.queue) - (total or 0) if by_deadline else 0,
        waiting=waiting_page(view.queue, wanted, entries, names),
        target=_target(view.queue, wanted.task) if wanted.task else None,
        more_running=more_running,
    )


def _running_page(queue: str, wanted: QueueQuery) -> tuple[list[PendingEntry], int | None, str]:
    """A page, the total, and the entry behind which the next page of a lane begins."""
    broker = get_broker()
    if wanted.owner:
        found = broker.held(queue, lane_tier=wanted.lane, engine_id=wanted.owner, limit=MAX_PER_ENGINE)
        return found, len(found), ""
    if wanted.lane:
        found = broker.held(queue, lane_tier=wanted.lane, after=wanted.after, limit=SHOWN + 1)
        return found[:SHOWN], None, found[SHOWN - 1].record.entry_id if len(found) > SHOWN else ""
    page = broker.pending(queue, order=wanted.order, offset=wanted.start, limit=SHOWN)
    # The order of fresh leases would change with each heartbeat: they keep the order of their claims.
    in_order = page.entries if wanted.order is PendingOrder.DEADLINE else sorted(page.entries, key=_by_idle)
    return in_order, page.total, ""


def _by_idle(entry: PendingEntry) -> tuple[int, int, str]:
    record, fresh = entry.record, entry.idle_ms < FRESH_MS
    return (1, record.claimed_at_ms, entry.task_id) if fresh else (0, record.renewed_at_ms, entry.task_id)


def _running(queue: str) -> int:
    return get_broker().pending(queue, limit=1).total


def _target(queue: str, task_id: str) -> ActionTarget | None:
    try:
        task = Task.objects.select_related("job").only(*TARGET_FIELDS).filter(pk=task_id, queue=queue).first()
    except DatabaseError:
        return None
    return None if task is None else action_target(task, get_broker())


def _running_line(entry: PendingEntry, named: Named) -> RunningLine:
    record, fresh = entry.record, entry.idle_ms < FRESH_MS
    progress = parse_progress(record.progress)
    lease_ms = max(settings.DALSTON_ABSOLUTE_TIMEOUT_MS, record.deadline_ms - record.claimed_at_ms)
    return RunningLine(
        task_id=entry.task_id,
        job_id=record.job_id,
        entry_id=record.entry_id,
        named=named,
        lane=_lane_of(record.stream),
        owner=record.owner,
        attempt=record.attempt,
        deliveries=record.deliveries,
        losses=record.losses,
        idle_since=None if fresh else moment(record.renewed_at_ms),
        lease_ends_at=None if fresh else moment(record.renewed_at_ms) + timedelta(milliseconds=lease_ms),
        deadline_at=moment(record.deadline_ms) if record.deadline_ms else None,
        percent=None if progress.fraction is None else round(100 * progress.fraction),
        message=progress.message,
        cancelling=bool(record.cancel),
    )


def _lane_of(stream: str) -> str:
    return lane_word(LaneTier(*get_broker().home.keys.lane_and_tier(stream)))


def _pause(queue: str) -> Pause | None:
    try:
        row = StagePause.objects.filter(queue=queue).first()
    except DatabaseError:
        return None
    return None if row is None else Pause(row.actor, row.reason, row.at)


def _lanes_of(overview: Overview, queue: str) -> tuple[Lane, ...]:
    return () if overview.redis is None else tuple(lane for lane in overview.redis.lanes if lane.queue == queue)


def _parts(overview: Overview, queue: str) -> str:
    stats = [stats for stats in overview.redis.snapshot.queues if stats.queue == queue] if overview.redis else []
    if not stats:
        return ""
    return waiting_parts(stats[0].waiting, stats[0].ready if overview.postgres else None)


def _engines_of(overview: Overview, queue: str) -> int:
    if overview.redis is None:
        return 0
    return sum(queue in engine.queues for node in overview.redis.nodes for engine in node.engines)

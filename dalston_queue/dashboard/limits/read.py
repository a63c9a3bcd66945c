"""What the page of limits reads, as plain values. A fixed number of statements, whatever waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from dalston_queue.jobs.queries.limits import Usage, by_project, in_flight_by_queue, read_usage
from dalston_queue.models import Limit, Project

SHOWN = 200
SHOWN_PROJECTS = 50
SHOWN_QUEUES = 4


@dataclass(frozen=True, slots=True)
class LimitLine:
    id: int
    queue: str
    project: str
    key: str
    scope: str  # in words
    max_in_flight: int | None
    starts_per_minute: int | None
    in_flight: int
    percent: int | None
    waiting: int
    is_full: bool
    fullest_key: str
    keys_at_limit: int


@dataclass(frozen=True, slots=True)
class Share:
    """What a project has in flight in one queue."""

    queue: str
    mine: int
    total: int


@dataclass(frozen=True, slots=True)
class ProjectLine:
    name: str
    weight: int
    in_flight: int
    percent: int  # of what is in flight
    shares: tuple[Share, ...]
    more: int  # queues that are not shown
    stored: int  # bytes in the artifact store
    stored_limit: int


@dataclass(frozen=True, slots=True)
class LimitsView:
    at: datetime
    limits: tuple[LimitLine, ...]
    more_limits: int
    projects: tuple[ProjectLine, ...]
    more_projects: int


def read_limits() -> LimitsView:
    now = timezone.now()
    rows = Limit.objects.select_related("project").order_by("queue", "project__name", "concurrency_key")
    limits = list(rows[:SHOWN])
    projects, more_projects = _projects()
    return LimitsView(
        at=now,
        limits=tuple(line_of(usage) for usage in read_usage(limits, now)),
        more_limits=rows.count() - SHOWN if len(limits) == SHOWN else 0,
        projects=projects,
        more_projects=more_projects,
    )


def line_of(usage: Usage) -> LimitLine:
    limit, maximum = usage.limit, usage.limit.max_in_flight
    return LimitLine(
        id=limit.pk,
        queue=limit.queue,
        project=limit.project.name if limit.project else "",
        key="each key" if limit.is_of_each_key else limit.concurrency_key,
        scope=limit.scope,
        max_in_flight=maximum,
        starts_per_minute=limit.starts_per_minute,
        in_flight=usage.in_flight,
        percent=None if maximum is None else min(100, round(100 * usage.in_flight / maximum)) if maximum else 100,
        waiting=usage.waiting,
        is_full=usage.is_full,
        fullest_key=usage.fullest_key,
        keys_at_limit=usage.keys_at_limit,
    )


def _projects() -> tuple[tuple[ProjectLine, ...], int]:
    """Those with the most in flight, then those with the greatest weight."""
    by_queue = {queue: by_project(groups) for queue, groups in in_flight_by_queue().items()}
    totals: Counter[UUID] = Counter()
    for counts in by_queue.values():
        totals.update(counts)
    busiest = [project for project, _ in totals.most_common(SHOWN_PROJECTS)]
    rows = list(Project.objects.filter(id__in=busiest))
    rows += Project.objects.exclude(id__in=busiest).order_by("-weight", "name")[: SHOWN_PROJECTS - len(rows)]
    rows.sort(key=lambda row: (-totals[row.pk], -row.weight, row.name))
    more = Project.objects.count() - len(rows) if len(rows) == SHOWN_PROJECTS else 0
    return tuple(_project(row, by_queue, totals) for row in rows), more


def _project(row: Project, by_queue: Mapping[str, Counter[UUID]], totals: Counter[UUID]) -> ProjectLine:
    found = [Share(queue, counts[row.pk], counts.total()) for queue, counts in by_queue.items() if counts[row.pk]]
    found.sort(key=lambda share: (-share.mine, share.queue))
    whole = totals.total()
    return ProjectLine(
        name=row.name,
        weight=row.weight,
        in_flight=totals[row.pk],
        percent=round(100 * totals[row.pk] / whole) if whole else 0,
        shares=tuple(found[:SHOWN_QUEUES]),
        more=max(0, len(found) - SHOWN_QUEUES),
        stored=row.stored_bytes,
        stored_limit=settings.DALSTON_MAX_STORED_BYTES,
    )

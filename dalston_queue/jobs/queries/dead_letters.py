"""Patterns of the open dead letters of one day: how many by cause, queue, node, engine, project and hour, and how many
of them may pass if they are replayed.

The newest EXAMINED are counted, along an index, whatever the table holds; `is_whole` tells whether that is all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection

from dalston_queue.jobs.operator.replay import Filter

WINDOW = timedelta(days=1)
EXAMINED = 10_000
NEW = timedelta(hours=1)
"""A group of similar errors whose first one is not older is new."""
SHOWN = 8
"""Values of each kind but the hours: the most frequent."""
KINDS = ("cause", "queue", "node", "engine", "project")

MATCHES = """
    (%(queue)s::text IS NULL OR queue = %(queue)s) AND (%(cause)s::text IS NULL OR cause = %(cause)s)
    AND (%(fingerprint)s::text IS NULL OR fingerprint = %(fingerprint)s)
    AND (%(task_type)s::text IS NULL OR task_type = %(task_type)s)
    AND (%(error)s::text IS NULL OR position(lower(%(error)s) IN lower(error)) > 0)
    AND (%(retriable)s::boolean IS NULL OR retriable = %(retriable)s)
    AND (%(engines)s::text IS NULL OR engine_id ~ %(engines)s)
    AND (%(project)s::text IS NULL OR project_id = (SELECT id FROM dalston_project WHERE name = %(project)s))"""
"""Whether a row matches a filter, without its times; the page of dead letters asks the same."""

_PATTERNS = """
    WITH recent AS MATERIALIZED (
        SELECT cause, queue, retriable, project_id, engine_id, fingerprint, task_type, error, created_at
        FROM dalston_dead_letter
        WHERE replayed_at IS NULL AND discarded_at IS NULL AND created_at >= %(since)s{more}
        ORDER BY created_at DESC, id DESC LIMIT %(examined)s
    ), matched AS (
        SELECT cause, queue, retriable, project_id, created_at,
            substring(engine_id FROM '^(.+)\\.[^.]+\\.[^.]+\\.[^.]+$') AS node,
            coalesce(substring(engine_id FROM '^(.+\\.[^.]+\\.[^.]+)\\.[^.]+$'), nullif(engine_id, '')) AS engine
        FROM recent WHERE {matches}
    ), counted AS (
        SELECT CASE WHEN grouping(cause) = 0 THEN 'cause' WHEN grouping(queue) = 0 THEN 'queue'
                WHEN grouping(node) = 0 THEN 'node' WHEN grouping(engine) = 0 THEN 'engine'
                WHEN grouping(project_id) = 0 THEN 'project' WHEN grouping(hour) = 0 THEN 'hour' ELSE 'all' END AS kind,
            cause, queue, node, engine, project_id, hour, count(*) AS number,
            count(*) FILTER (WHERE retriable) AS retriable
        FROM (SELECT *, date_trunc('hour', created_at, 'UTC') AS hour FROM matched) AS by_hour
        GROUP BY GROUPING SETS ((cause), (queue), (node), (engine), (project_id), (hour), ())
    )
    SELECT kind, coalesce(cause, queue, node, engine, project.name), hour, number, retriable,
        (SELECT count(*) FROM recent)
    FROM (
        SELECT *, row_number() OVER (PARTITION BY kind ORDER BY number DESC, cause, queue, node, engine) AS rank
        FROM counted WHERE kind IN ('all', 'hour') OR coalesce(cause, queue, node, engine, project_id::text) IS NOT NULL
    ) AS ranked LEFT JOIN dalston_project AS project ON project.id = ranked.project_id
    WHERE kind = 'hour' OR rank <= %(shown)s
    ORDER BY kind, hour, number DESC, 2"""


@dataclass(frozen=True, slots=True)
class Pattern:
    """The dead letters that have one thing in common."""

    kind: str  # one of KINDS
    value: str
    count: int
    retriable: int
    is_many: bool = False  # more than the threshold of its alert


@dataclass(frozen=True, slots=True)
class InHour:
    at: datetime
    count: int
    retriable: int


@dataclass(frozen=True, slots=True)
class Patterns:
    since: datetime
    count: int
    retriable: int
    is_whole: bool  # False: there are more, and only the newest EXAMINED of the day were counted
    by: Mapping[str, tuple[Pattern, ...]]  # by kind, the most frequent first
    hours: tuple[InHour, ...]  # all of the day, oldest first

    @property
    def are_many_retriable(self) -> bool:
        return self.retriable > settings.DALSTON_ALERT_DEAD_LETTERS_RETRIABLE


def patterns(wanted: Filter, now: datetime) -> Patterns:
    """Of the open dead letters of the last day that match."""
    since = max(now - WINDOW, wanted.created_after) if wanted.created_after else now - WINDOW
    with connection.cursor() as cursor:
        cursor.execute(sql_of(wanted), values_of(wanted, since))
        rows = cursor.fetchall()
    by: dict[str, list[Pattern]] = {kind: [] for kind in KINDS}
    found: dict[datetime, InHour] = {}
    count = retriable = examined = 0
    for kind, value, hour, number, its_retriable, all_read in rows:
        if kind == "all":
            count, retriable, examined = number, its_retriable, all_read
        elif kind == "hour":
            found[hour] = InHour(hour, number, its_retriable)
        else:
            by[kind].append(Pattern(kind, value, number, its_retriable))
    many = settings.DALSTON_ALERT_DEAD_LETTERS_OF_CAUSE
    by["cause"] = [replace(each, is_many=each.count > many) for each in by["cause"]]
    return Patterns(
        since=since,
        count=count,
        retriable=retriable,
        is_whole=examined < EXAMINED,
        by={kind: tuple(each) for kind, each in by.items()},
        hours=tuple(found.get(hour, InHour(hour, 0, 0)) for hour in _hours(now)),
    )


def sql_of(wanted: Filter) -> str:
    more = " AND created_at < %(until)s" if wanted.created_before else ""
    more += " AND project_id = %(only_project)s" if wanted.project_id else ""
    return _PATTERNS.format(more=more, matches=MATCHES)


def values_of(wanted: Filter, since: datetime | None) -> dict[str, Any]:
    """Of MATCHES, and of the times around it."""
    return {
        "queue": wanted.queue,
        "cause": wanted.cause,
        "fingerprint": wanted.fingerprint,
        "task_type": wanted.task_type,
        "error": wanted.error_contains,
        "retriable": wanted.retriable,
        "engines": wanted.engines,
        "project": wanted.project,
        "only_project": wanted.project_id,
        "since": since,
        "until": wanted.created_before,
        "examined": EXAMINED,
        "shown": SHOWN,
    }


def _hours(now: datetime) -> list[datetime]:
    """The hours that the day touches, in UTC."""
    this = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return [this - timedelta(hours=back) for back in range(24, -1, -1)]

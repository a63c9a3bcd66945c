"""SQL of the pages of dead letters: finds open ones at a cost that does not grow with their number.

Groups without a type, an error or a time in the filter: one index lookup per group, with first and last seen from the
two ends of the group and a count that stops at COUNT_LIMIT. Groups with such a filter, and all lists: a search in the
newest SEARCH_LIMIT open dead letters. The page says where a limit applies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from dalston_queue.jobs.operator.replay import Filter
from dalston_queue.jobs.queries.dead_letters import MATCHES, values_of

SEARCH_LIMIT = 20_000
COUNT_LIMIT = 2_000
MAX_GROUPS = 50
MAX_FINGERPRINTS = 500
"""Fingerprints that are read: more different errors at once are one problem."""
SHOWN = 50

_OPEN = "replayed_at IS NULL AND discarded_at IS NULL"

_WALK = f"""
    WITH RECURSIVE walk AS (
        (SELECT fingerprint FROM dalston_dead_letter WHERE {_OPEN} ORDER BY fingerprint LIMIT 1)
        UNION ALL
        SELECT (
            SELECT next.fingerprint FROM dalston_dead_letter next
            WHERE {_OPEN} AND next.fingerprint > walk.fingerprint ORDER BY next.fingerprint LIMIT 1
        ) FROM walk WHERE walk.fingerprint IS NOT NULL
    ), groups AS (
        SELECT one.fingerprint, newest.*, oldest.created_at AS first_at
        FROM (SELECT fingerprint FROM walk WHERE fingerprint IS NOT NULL LIMIT {MAX_FINGERPRINTS}) AS one
        CROSS JOIN LATERAL (
            SELECT queue, cause, task_type, error_type, left(error, 300) AS error, created_at AS last_at
            FROM dalston_dead_letter d WHERE {_OPEN} AND d.fingerprint = one.fingerprint
            ORDER BY created_at DESC, id DESC LIMIT 1
        ) AS newest
        CROSS JOIN LATERAL (
            SELECT created_at FROM dalston_dead_letter d WHERE {_OPEN} AND d.fingerprint = one.fingerprint
            ORDER BY created_at, id LIMIT 1
        ) AS oldest
        WHERE (%(queue)s::text IS NULL OR queue = %(queue)s) AND (%(cause)s::text IS NULL OR cause = %(cause)s)
        ORDER BY newest.last_at DESC, one.fingerprint LIMIT {MAX_GROUPS}
    )
    SELECT groups.fingerprint, counted.count, queue, cause, task_type, error_type, error, first_at, last_at
    FROM groups CROSS JOIN LATERAL (
        SELECT count(*) FROM (
            SELECT FROM dalston_dead_letter d WHERE {_OPEN} AND d.fingerprint = groups.fingerprint
            LIMIT {COUNT_LIMIT + 1}
        ) AS enough
    ) AS counted
    ORDER BY last_at DESC, groups.fingerprint"""  # noqa: S608  # our own constants

_NEWEST = f"""
    SELECT * FROM dalston_dead_letter
    WHERE {_OPEN} AND (%(fingerprint)s::text IS NULL OR fingerprint = %(fingerprint)s)
        AND (%(since)s::timestamptz IS NULL OR created_at >= %(since)s)
        AND (%(until)s::timestamptz IS NULL OR created_at < %(until)s)
        AND (%(after_at)s::timestamptz IS NULL OR (created_at, id) < (%(after_at)s, %(after_id)s::uuid))
    ORDER BY created_at DESC, id DESC LIMIT {SEARCH_LIMIT}"""  # noqa: S608

_SEARCH_GROUPS = f"""
    SELECT fingerprint, count(*), max(queue), max(cause), max(task_type), max(error_type),
        left((array_agg(error ORDER BY created_at DESC))[1], 300), min(created_at), max(created_at) AS last_at
    FROM ({_NEWEST}) AS newest WHERE {MATCHES}
    GROUP BY fingerprint ORDER BY last_at DESC, fingerprint LIMIT {MAX_GROUPS}"""  # noqa: S608

_LIST = f"""
    SELECT id, task_id, queue, task_type, cause, error_type, left(error, 300), attempt, created_at
    FROM ({_NEWEST}) AS newest WHERE {MATCHES}
    ORDER BY created_at DESC, id DESC LIMIT {SHOWN + 1}"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class GroupLine:
    """`count` is COUNT_LIMIT + 1 for "more than that"."""

    fingerprint: str
    count: int
    queue: str
    cause: str
    task_type: str
    error_type: str
    error: str
    first_at: datetime
    last_at: datetime

    @property
    def is_more(self) -> bool:
        return self.count > COUNT_LIMIT


@dataclass(frozen=True, slots=True)
class DeadLetterLine:
    id: UUID
    task_id: UUID | None
    queue: str
    task_type: str
    cause: str
    error_type: str
    error: str
    attempt: int
    created_at: datetime


Cursor = tuple[datetime, UUID]
"""The last dead letter of a page: the next page begins behind it."""


def is_search(wanted: Filter) -> bool:
    """Must each dead letter be compared? Queue and cause are the same for a whole group."""
    same = {"queue": None, "cause": None, "fingerprint": None}
    return replace(wanted, **same) != Filter()


def groups_of(wanted: Filter) -> tuple[GroupLine, ...]:
    """The groups that were seen last, newest first."""
    query = _SEARCH_GROUPS if is_search(wanted) or wanted.fingerprint else _WALK
    return tuple(GroupLine(*row) for row in _rows(query, wanted))


def dead_letters_of(wanted: Filter, after: Cursor | None = None) -> tuple[tuple[DeadLetterLine, ...], Cursor | None]:
    """A page of dead letters, newest first, and the cursor of the next page."""
    found = tuple(DeadLetterLine(*row) for row in _rows(_LIST, wanted, after))
    if len(found) <= SHOWN:
        return found, None
    last = found[SHOWN - 1]
    return found[:SHOWN], (last.created_at, last.id)


def _rows(query: str, wanted: Filter, after: Cursor | None = None) -> list[tuple[Any, ...]]:
    after_at, after_id = after or (None, None)
    values = {**values_of(wanted, wanted.created_after), "after_at": after_at, "after_id": after_id}
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows

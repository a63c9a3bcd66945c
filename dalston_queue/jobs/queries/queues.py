"""Queues by how busy they are, and by name: which of many a page, a scrape or an answer shows.

What is shown is bounded (DALSTON_SHOWN_QUEUES), and so is what is read for it. While there are no more queues than
that, all are shown. Of more, those that engines of a node serve come first: a client that fills queues without any
engine must not hide an idle one, with its counters and its alerts. Names and numbers are from Postgres; a queue that
only Redis knows is named by the caller.
"""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from django.conf import settings
from django.db import connection

from dalston_queue.broker.engine.remote import NODE
from dalston_queue.broker.errors import BrokerError
from dalston_queue.redis import get_broker

# The names, and how many tasks of each wait and run.
_DEPTH = """
    SELECT split_part(lane, '@', 1) AS queue, sum(ready + queued) AS waiting, sum(running) AS running
    FROM dalston_depth GROUP BY split_part(lane, '@', 1)
    HAVING sum(ready) <> 0 OR sum(queued) <> 0 OR sum(running) <> 0"""
_BUSIEST = f"""
    WITH depth AS ({_DEPTH})
    SELECT n.name FROM unnest(%s::text[]) AS n (name)
    LEFT JOIN depth ON depth.queue = n.name LEFT JOIN dalston_lane l ON l.name = n.name
    ORDER BY n.name = ANY(%s) DESC, coalesce(depth.waiting + depth.running, 0) DESC, l.used_at DESC NULLS LAST, n.name
    LIMIT %s"""  # noqa: S608
_NAMES = f"""
    SELECT queue FROM ({_DEPTH}) AS depth UNION SELECT queue FROM dalston_lane WHERE name = queue"""  # noqa: S608
_LINES = f"""
    WITH depth AS ({_DEPTH})
    SELECT n.name, coalesce(depth.waiting, 0), coalesce(depth.running, 0), l.used_at
    FROM unnest(%s::text[]) AS n (name) LEFT JOIN depth ON depth.queue = n.name
    LEFT JOIN dalston_lane l ON l.name = n.name ORDER BY n.name COLLATE "C"
    """  # noqa: S608


_HIDDEN = f"""
    SELECT coalesce(sum(waiting), 0), coalesce(sum(running), 0) FROM ({_DEPTH}) AS depth
    WHERE queue <> ALL(%s)"""  # noqa: S608


class Selection(NamedTuple):
    """The queues to show, and what the others hold."""

    names: list[str] | None = None  # None: all
    hidden: int = 0  # queues that are not shown
    waiting: int = 0  # their tasks
    running: int = 0


ALL = Selection()


class Line(NamedTuple):
    """A queue in the list of all queues."""

    queue: str
    waiting: int
    running: int
    used_at: datetime | None  # None: not known yet


def names(in_redis: Collection[str]) -> list[str]:
    """Every queue that Redis or Postgres knows, in order."""
    with connection.cursor() as cursor:
        cursor.execute(_NAMES)
        return sorted({*in_redis, *(row[0] for row in cursor.fetchall())})


def select(in_redis: Collection[str]) -> Selection:
    """The queues that engines serve, then the busiest; or all if Redis knows not many. Raises django.db.Error."""
    limit = settings.DALSTON_SHOWN_QUEUES
    if len(in_redis) <= limit:
        return ALL
    known = names(in_redis)
    with connection.cursor() as cursor:
        cursor.execute(_BUSIEST, [known, _served(), limit])
        shown = [row[0] for row in cursor.fetchall()]
        cursor.execute(_HIDDEN, [shown])
        return Selection(shown, len(known) - limit, *cursor.fetchone())


def _served() -> list[str]:
    """Queues of engines with a supervisor. A worker over HTTP names its queues itself."""
    try:
        engines = get_broker().registry.engines()
    except BrokerError:
        return []
    return sorted({queue for engine in engines if engine.node_id != NODE for queue in engine.queues})


def page(in_redis: Collection[str], after: str, limit: int) -> list[Line]:
    """The queues behind this one, by name."""
    wanted = [name for name in names(in_redis) if name > after][:limit]
    with connection.cursor() as cursor:
        cursor.execute(_LINES, [wanted])
        return [Line(*row) for row in cursor.fetchall()]


def first(in_redis: Collection[str]) -> Selection:
    """The first queues by name, while Postgres does not answer."""
    limit = settings.DALSTON_SHOWN_QUEUES
    return ALL if len(in_redis) <= limit else Selection(sorted(in_redis)[:limit], len(in_redis) - limit)

"""Depth: how many tasks are PENDING, READY, QUEUED and RUNNING in each lane and tier. Exact, without counting tasks.

Each statement that makes or moves tasks writes a row with the change (jobs/submit/rows.py, jobs/lifecycle/status.py).
The depth is the sum; `compact` replaces the rows of a lane by their sums, and `repair` counts anew.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from django.db import connection, transaction

from dalston_queue.jobs.order.window import LaneTier

MANY_ROWS = 50
"""Rows of a lane and tier from which they are added up."""


@dataclass(frozen=True, slots=True)
class LaneDepth:
    lane: str
    tier: str
    ready: int
    queued: int
    running: int

    @property
    def lane_tier(self) -> LaneTier:
        return self.lane, self.tier


_SUM = """
    SELECT lane, tier, sum(ready), sum(queued), sum(running) FROM dalston_depth {where}
    GROUP BY lane, tier HAVING sum(ready) <> 0 OR sum(queued) <> 0 OR sum(running) <> 0"""
_OF_ALL = _SUM.format(where="")
OF_LANES = _SUM.format(where="WHERE lane = ANY(%s)")
READY_AND_QUEUED = "SELECT sum(ready), sum(queued) FROM dalston_depth WHERE lane = %s AND tier = %s"

_LOCK = "SELECT pg_try_advisory_xact_lock(hashtext('dalston_depth'))"
# Rows that other transactions add meanwhile are not seen by this statement, and stay.
_COMPACT = """
    WITH many AS (
        SELECT lane, tier FROM dalston_depth GROUP BY lane, tier
        HAVING count(*) > %s OR (sum(pending) = 0 AND sum(ready) = 0 AND sum(queued) = 0 AND sum(running) = 0)
    ), gone AS (
        DELETE FROM dalston_depth d USING many WHERE d.lane = many.lane AND d.tier = many.tier
        RETURNING d.lane, d.tier, d.project_id, d.pending, d.ready, d.queued, d.running
    )
    INSERT INTO dalston_depth (lane, tier, project_id, pending, ready, queued, running)
    SELECT lane, tier, project_id, sum(pending), sum(ready), sum(queued), sum(running) FROM gone
    GROUP BY lane, tier, project_id
    HAVING sum(pending) <> 0 OR sum(ready) <> 0 OR sum(queued) <> 0 OR sum(running) <> 0"""
_BY_PROJECT = """
    SELECT split_part(lane, '@', 1), tier, project_id, sum(pending), sum(ready + queued) FROM dalston_depth
    GROUP BY split_part(lane, '@', 1), tier, project_id
    HAVING sum(pending) <> 0 OR sum(ready + queued) <> 0"""
_REAL_BY_PROJECT = """
    SELECT queue, tier, project_id, count(*) FILTER (WHERE status IN ('pending', 'scheduled')),
           count(*) FILTER (WHERE status IN ('ready', 'queued'))
    FROM dalston_task WHERE status IN ('pending', 'scheduled', 'ready', 'queued') GROUP BY queue, tier, project_id"""
# An index for each arm: only live tasks are read.
_LIVE = " UNION ALL ".join(
    f"SELECT lane, tier, project_id, status FROM dalston_task WHERE {arm}"  # noqa: S608 - constants
    for arm in (
        "status = 'pending'", "status = 'scheduled'", "status = 'ready'", "status IN ('queued', 'running')"
    )
)  # fmt: skip
_COUNT = f"""
    SELECT lane, tier, project_id, count(*) FILTER (WHERE status IN ('pending', 'scheduled')) AS pending,
           count(*) FILTER (WHERE status = 'ready') AS ready, count(*) FILTER (WHERE status = 'queued') AS queued,
           count(*) FILTER (WHERE status = 'running') AS running
    FROM ({_LIVE}) AS live GROUP BY lane, tier, project_id"""  # noqa: S608
# One statement sees both as of one moment, and each transaction writes both: so a difference is a wrong number, not a
# transition on its way.
_WRONG = f"""
    WITH real AS ({_COUNT}), written AS (
        SELECT lane, tier, project_id, sum(pending) AS pending, sum(ready) AS ready, sum(queued) AS queued,
               sum(running) AS running
        FROM dalston_depth GROUP BY lane, tier, project_id
        HAVING sum(pending) <> 0 OR sum(ready) <> 0 OR sum(queued) <> 0 OR sum(running) <> 0
    )
    SELECT count(*) FROM ((SELECT * FROM written EXCEPT SELECT * FROM real)
                          UNION (SELECT * FROM real EXCEPT SELECT * FROM written)) AS wrong"""  # noqa: S608
# Waits for the transactions that have written, and holds back those that will.
_HOLD = "LOCK TABLE dalston_depth IN SHARE ROW EXCLUSIVE MODE"
_COUNT_ANEW = f"""
    WITH gone AS (DELETE FROM dalston_depth)
    INSERT INTO dalston_depth (lane, tier, project_id, pending, ready, queued, running) {_COUNT}"""  # noqa: S608
_REAL = """
    SELECT lane, tier, count(*) FILTER (WHERE status = 'ready'), count(*) FILTER (WHERE status = 'queued'),
           count(*) FILTER (WHERE status = 'running')
    FROM dalston_task WHERE status IN ('ready', 'queued', 'running') GROUP BY lane, tier"""


def depths(lanes: Collection[str] | None = None) -> list[LaneDepth]:
    """The depth of these lanes, or of all; without those that are empty."""
    with connection.cursor() as cursor:
        if lanes is None:
            cursor.execute(_OF_ALL)
        else:
            cursor.execute(OF_LANES, [list(lanes)])
        return [LaneDepth(*row) for row in cursor.fetchall()]


class Waiting(NamedTuple):
    """What a project has in one tier of a queue that no engine has started."""

    queue: str
    tier: str
    project_id: UUID | None
    pending: int  # for other stages, for its time, or for an orchestrator
    waiting: int  # READY or QUEUED


def waiting_by_project(*, count: bool = False) -> list[Waiting]:
    """All of it. `count`: by counting all tasks, for tests."""
    with connection.cursor() as cursor:
        cursor.execute(_REAL_BY_PROJECT if count else _BY_PROJECT)
        return [Waiting(*row) for row in cursor.fetchall()]


def compact() -> None:
    """Add up the rows of each lane that has many. One process at a time; another one finds it done."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOCK)
        if cursor.fetchone()[0]:
            cursor.execute(_COMPACT, [MANY_ROWS])


def repair(*, dry_run: bool = False) -> int:
    """Count all live tasks anew if a number is wrong; returns how many were. Only rows that other code than this has
    written are: a release that knew fewer columns, or a change by hand."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_WRONG)
        wrong = int(cursor.fetchone()[0])
        if wrong and not dry_run:
            cursor.execute(_HOLD)
            cursor.execute(_COUNT_ANEW)
    return wrong


def counted() -> list[LaneDepth]:
    """The depth by counting all tasks: for tests, and to compare after a change by hand."""
    with connection.cursor() as cursor:
        cursor.execute(_REAL)
        return [LaneDepth(*row) for row in cursor.fetchall()]

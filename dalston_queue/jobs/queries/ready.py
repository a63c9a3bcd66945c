"""The list of a queue's READY tasks: by tier, and in each tier the oldest first.

A page begins behind the last task of the page before, so that page one thousand costs as much as page one. Shares and
limits decide as well which of these tasks comes next (jobs/order).
"""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from dalston_queue.broker.protocol.types import TIERS, Tier

# From the lanes that have READY tasks: of each as many entries of task_ready_by_age as the page has lines.
PAGE = """
    SELECT t.id, t.job_id, p.lane, p.tier, p.first_enqueued_at, t.attempt, t.task_type, t.stage, j.name, g.name,
           t.concurrency_key
    FROM (
        SELECT next.id, next.first_enqueued_at, l.lane, l.tier, l.rank
        FROM (
            SELECT lane, tier, array_position(%(tiers)s::text[], tier::text) AS rank FROM dalston_depth
            WHERE CASE WHEN %(lane)s = '' THEN split_part(lane, '@', 1) = %(queue)s
                       ELSE lane = %(lane)s AND tier = %(tier)s END
            GROUP BY lane, tier HAVING sum(ready) > 0
        ) AS l CROSS JOIN LATERAL (
            SELECT id, first_enqueued_at FROM dalston_task
            WHERE status = 'ready' AND lane = l.lane AND tier = l.tier AND (first_enqueued_at, id) > (
                CASE WHEN l.rank = %(rank)s THEN %(at)s::timestamptz ELSE '-infinity' END, %(id)s::uuid
            )
            ORDER BY first_enqueued_at, id LIMIT %(limit)s
        ) AS next
        WHERE l.rank >= %(rank)s
        ORDER BY l.rank, next.first_enqueued_at, next.id LIMIT %(limit)s
    ) AS p
    JOIN dalston_task t ON t.id = p.id
    JOIN dalston_job j ON j.id = t.job_id
    JOIN dalston_project g ON g.id = t.project_id
    ORDER BY p.rank, p.first_enqueued_at, p.id"""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Place(NamedTuple):
    """The place of a READY task in this order."""

    tier: Tier
    since: datetime
    task_id: UUID

    def __str__(self) -> str:
        return f"{self.tier}.{(self.since - _EPOCH) // timedelta(microseconds=1)}.{self.task_id.hex}"


def place(tier: str, microseconds: str, task_id: str) -> Place:
    """The place with these parts. Raises ValueError; the microseconds have at most 16 digits."""
    return Place(Tier(tier), _EPOCH + timedelta(microseconds=int(microseconds)), UUID(task_id))


class ReadyTask(NamedTuple):
    task_id: UUID
    job_id: UUID
    lane: str
    tier: str
    since: datetime
    attempt: int
    task_type: str
    stage: str
    job: str
    project: str
    concurrency_key: str

    @property
    def place(self) -> Place:
        return Place(Tier(self.tier), self.since, self.task_id)


def ready_page(
    queue: str, *, limit: int, lane_tier: tuple[str, str] | None = None, after: Place | None = None
) -> list[ReadyTask]:
    """READY tasks of a queue, or of one lane and tier of it."""
    lane, tier = lane_tier or ("", "")
    arguments: dict[str, Any] = {
        "queue": queue,
        "lane": lane,
        "tier": tier,
        "tiers": [str(each) for each in TIERS],
        "rank": 1 + TIERS.index(after.tier) if after else 1,
        "at": after.since if after else "-infinity",
        "id": after.task_id if after else UUID(int=0),
        "limit": limit,
    }
    with connection.cursor() as cursor:
        cursor.execute(PAGE, arguments)
        return [ReadyTask(*row) for row in cursor.fetchall()]

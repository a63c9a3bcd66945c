"""Limits: at most so many tasks in flight, at most so many starts a minute, of a queue, a project or a concurrency key.

The rows of the limits that apply to the waiting groups are locked while a window is refilled: two orchestrators can't
both use what is left. A start is counted when the task is queued.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from dalston_queue.jobs.order.share import Group
from dalston_queue.models import Limit
from dalston_queue.models.order import EACH_KEY

# Locked in the order of their ids, so that refills can't deadlock; only those that can hold one of these groups.
_LOCKED = """
    SELECT * FROM dalston_limit
    WHERE (queue = %s OR queue = '') AND (project_id IS NULL OR project_id = ANY(%s::uuid[]))
      AND (concurrency_key IN ('', %s) OR concurrency_key = ANY(%s))
    ORDER BY id FOR UPDATE"""
MAX_SKEW = timedelta(minutes=1)
"""Between the clocks of two orchestrators. A bucket that was filled later than this was filled by a wrong clock."""


def locked_limits(queue: str, waiting: Collection[Group]) -> list[Limit]:
    """The limits that apply to these groups in a queue, locked for the rest of the transaction."""
    projects, keys = {project for project, _ in waiting}, {key for _, key in waiting}
    # The ORM would take a millisecond to build the query, for each refill.
    return list(Limit.objects.raw(_LOCKED, [queue, list(projects), EACH_KEY, list(keys)]))


def applies(limit: Limit, group: Group) -> bool:
    """Whether tasks of this group count by the limit."""
    project_id, key = group
    if limit.project_id is not None and limit.project_id != project_id:
        return False
    return limit.concurrency_key in ("", key) or (limit.concurrency_key == EACH_KEY and key != "")


@dataclass(frozen=True, slots=True)
class Bucket:
    """The starts that a limit allows: `left` of them at `at`. Pure.

    It holds a twentieth of a minute's starts, at least one, and fills so that no minute has more starts than the limit.
    """

    starts_per_minute: int
    left: float
    at: datetime

    @classmethod
    def of(cls, limit: Limit, now: datetime) -> Bucket | None:
        if limit.starts_per_minute is None:
            return None
        size = burst(limit.starts_per_minute)
        if limit.filled_at is None:
            return cls(limit.starts_per_minute, size, now)
        elapsed = now - limit.filled_at
        if -MAX_SKEW < elapsed < timedelta():
            # Not back: two orchestrators whose clocks differ would fill the same seconds again and again.
            now, elapsed = limit.filled_at, timedelta()
        filled = limit.tokens + max(0.0, elapsed.total_seconds()) * _per_second(limit.starts_per_minute)
        return cls(limit.starts_per_minute, min(size, filled), now)

    @property
    def next_start_s(self) -> float:
        """Seconds until it allows a start."""
        return max(0.0, (1 - self.left) / _per_second(self.starts_per_minute))


def burst(starts_per_minute: int) -> float:
    """So many may start at once, and wait in windows."""
    return max(1.0, starts_per_minute / 20)


def _per_second(starts_per_minute: int) -> float:
    """A full bucket and what fills it in a minute are one start more than the limit, at the end of that minute."""
    return (starts_per_minute - burst(starts_per_minute) + 1) / 60

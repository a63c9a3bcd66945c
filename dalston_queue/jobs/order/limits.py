"""Limits: at most so many tasks in flight, at most so many starts a minute, of a queue, a project or a concurrency key.

The rows of the limits that apply to a queue are locked while its windows are refilled: two orchestrators can't both use
what is left. A start is counted when the task is queued.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import floor
from uuid import UUID

from django.db import connection

from dalston_queue.jobs.order.share import Budget, Group
from dalston_queue.models import Limit
from dalston_queue.models.order import EACH_KEY

IN_FLIGHT_ANYWHERE = """
    SELECT project_id, concurrency_key, count(*) FROM dalston_task
    WHERE status IN ('queued', 'running') AND project_id = ANY(%s::uuid[]) GROUP BY project_id, concurrency_key"""
_OF_QUEUE = "SELECT * FROM dalston_limit WHERE queue = %s OR queue = '' ORDER BY id"
_SPEND = "UPDATE dalston_limit SET tokens = %s, filled_at = %s WHERE id = %s"

MAX_SKEW = timedelta(minutes=1)
"""Between the clocks of two orchestrators. A bucket that was filled later than this was filled by a wrong clock."""


def limits_of(queue: str, *, lock: bool = False) -> list[Limit]:
    """The limits that apply to tasks of a queue. Locked in the order of their ids, so that refills can't deadlock."""
    # The ORM would take a millisecond to build the query, for each refill.
    return list(Limit.objects.raw(_OF_QUEUE + " FOR UPDATE" if lock else _OF_QUEUE, [queue]))


def applies(limit: Limit, group: Group) -> bool:
    """Whether tasks of this group count by the limit."""
    project_id, key = group
    if limit.project_id is not None and limit.project_id != project_id:
        return False
    return limit.concurrency_key in ("", key) or (limit.concurrency_key == EACH_KEY and key != "")


def counts_for(limits: Iterable[Limit], of_queue: Mapping[Group, int]) -> dict[int, dict[Group, int]]:
    """By limit what each group that it applies to has in flight: in its queue, or in all of them."""
    limits = list(limits)
    everywhere = [limit.project_id for limit in limits if not limit.queue and limit.project_id]
    anywhere = _in_flight_anywhere(everywhere) if everywhere else {}
    return {
        limit.pk: {
            group: count for group, count in (of_queue if limit.queue else anywhere).items() if applies(limit, group)
        }
        for limit in limits
    }


def _in_flight_anywhere(projects: list[UUID]) -> dict[Group, int]:
    with connection.cursor() as cursor:
        cursor.execute(IN_FLIGHT_ANYWHERE, [projects])
        return {(project_id, key): count for project_id, key, count in cursor.fetchall()}


@dataclass(frozen=True, slots=True)
class Bucket:
    """The starts that a limit allows: `left` of them at `at`. Pure.

    It holds a twentieth of a minute's starts, at least one, and fills so that no minute has more starts than the limit.
    """

    starts_per_minute: int
    left: float
    at: datetime

    @classmethod
    def of(cls, limit: Limit, now: datetime) -> "Bucket | None":
        if limit.starts_per_minute is None:
            return None
        size = _size(limit.starts_per_minute)
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


def _size(starts_per_minute: int) -> float:
    return max(1.0, starts_per_minute / 20)


def _per_second(starts_per_minute: int) -> float:
    """A full bucket and what fills it in a minute are one start more than the limit, at the end of that minute."""
    return (starts_per_minute - _size(starts_per_minute) + 1) / 60


@dataclass(slots=True)
class Spending:
    """The budgets of one refill, and the buckets that its starts are taken from."""

    budgets: list[Budget]
    _buckets: list[tuple[Limit, Bucket]]

    @classmethod
    def of(
        cls, limits: Sequence[Limit], of_queue: Mapping[Group, int], waiting: Iterable[Group], now: datetime
    ) -> "Spending":
        groups = list(waiting)
        counts = counts_for(limits, of_queue)
        budgets: list[Budget] = []
        buckets: list[tuple[Limit, Bucket]] = []
        for limit in limits:
            mine = [group for group in groups if applies(limit, group)]
            if limit.max_in_flight is not None:
                used = counts[limit.pk]
                if limit.concurrency_key == EACH_KEY:
                    budgets += [Budget(limit.max_in_flight - used.get(group, 0), frozenset({group})) for group in mine]
                else:
                    budgets.append(Budget(limit.max_in_flight - sum(used.values()), frozenset(mine)))
            if bucket := Bucket.of(limit, now):
                budgets.append(Budget(floor(bucket.left), frozenset(mine)))
                buckets.append((limit, bucket))
        return cls(budgets, buckets)

    def spend(self, started: Sequence[Group]) -> None:
        """Take these starts from the buckets. The limits must be locked."""
        for limit, bucket in self._buckets:
            used = sum(applies(limit, group) for group in started)
            if used or limit.filled_at is None:
                with connection.cursor() as cursor:
                    cursor.execute(_SPEND, [bucket.left - used, bucket.at, limit.pk])

"""Spending: what the limits still allow in one refill, which entries use them up, and what its starts take.

`Spending.of` counts what is in flight; the rest is pure, but for `spend`, which writes the token buckets.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import floor
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from dalston_queue.jobs.order.limits import Bucket, applies, burst
from dalston_queue.jobs.order.share import Budget, Group
from dalston_queue.jobs.order.waiting import InFlight
from dalston_queue.models import Limit

IN_FLIGHT_ANYWHERE = """
    SELECT project_id, concurrency_key, count(*), count(*) FILTER (WHERE status = 'queued') FROM dalston_task
    WHERE status IN ('queued', 'running') AND project_id = ANY(%s::uuid[]) GROUP BY project_id, concurrency_key"""
_SPEND = "UPDATE dalston_limit SET tokens = %s, filled_at = %s WHERE id = %s"


class Groups:
    """Groups, found by the limits that apply to them."""

    def __init__(self, groups: Iterable[Group]) -> None:
        self._all = frozenset(groups)
        self._of_project: defaultdict[UUID, list[Group]] = defaultdict(list)
        for group in self._all:
            self._of_project[group[0]].append(group)

    def under(self, limit: Limit) -> Collection[Group]:
        if limit.project_id is None:
            return self._all
        if limit.concurrency_key and not limit.is_of_each_key:
            group = limit.project_id, limit.concurrency_key
            return (group,) if group in self._all else ()
        return [group for group in self._of_project[limit.project_id] if applies(limit, group)]


class Entry(NamedTuple):
    """An entry of a window."""

    task_id: UUID
    job_id: UUID
    attempt: int
    queue: str
    group: Group


@dataclass(frozen=True, slots=True)
class _Rule:
    """What a limit still allows, and to which of the waiting groups it applies. `holds`: entries count by it as long as
    they are in a window."""

    limit: Limit
    left: int
    groups: frozenset[Group]
    holds: bool = True

    def counts(self, entry: Entry) -> bool:
        if not self.holds or self.limit.queue not in ("", entry.queue):
            return False
        return entry.group in self.groups if self.limit.is_of_each_key else applies(self.limit, entry.group)


@dataclass(frozen=True, slots=True)
class Spending:
    """The budgets of one refill, and the buckets that its starts are taken from."""

    _rules: list[_Rule]
    _buckets: list[tuple[Limit, Bucket]]

    @classmethod
    def of(cls, limits: Sequence[Limit], flying: InFlight, waiting: Iterable[Group], now: datetime) -> Spending:
        groups = Groups(waiting)
        here = Groups(flying.all), flying.all, flying.queued
        everywhere = [limit.project_id for limit in limits if not limit.queue and limit.project_id]
        anywhere = _in_flight_anywhere(everywhere) if everywhere else here
        rules: list[_Rule] = []
        buckets: list[tuple[Limit, Bucket]] = []
        for limit in limits:
            mine = frozenset(groups.under(limit))
            those, all_of, queued_of = here if limit.queue else anywhere
            if limit.max_in_flight is not None and limit.is_of_each_key:
                rules += [_Rule(limit, limit.max_in_flight - all_of[group], frozenset({group})) for group in mine]
            elif limit.max_in_flight is not None:
                rules.append(_Rule(limit, limit.max_in_flight - sum(all_of[each] for each in those.under(limit)), mine))
            if bucket := Bucket.of(limit, now):
                # All that waits in windows may start at once.
                room = floor(burst(bucket.starts_per_minute)) - sum(queued_of[each] for each in those.under(limit))
                rules += [_Rule(limit, floor(bucket.left), mine, holds=False), _Rule(limit, room, mine)]
                buckets.append((limit, bucket))
        return cls(rules, buckets)

    def budgets(self) -> list[Budget]:
        return [Budget(rule.left, rule.groups) for rule in self._rules]

    def scopes(self) -> tuple[list[str], list[UUID]]:
        """The queues and the projects in which entries count by these limits."""
        limits = [rule.limit for rule in self._rules if rule.holds and rule.groups]
        queues = {limit.queue for limit in limits if limit.queue}
        return list(queues), list({limit.project_id for limit in limits if not limit.queue and limit.project_id})

    def to_withdraw(self, entries: Sequence[Entry], choose: Callable[[Sequence[Budget]], object]) -> list[Entry]:
        """The first of these entries without which the limits would allow more. `choose` takes from budgets what is
        wanted. What another limit holds needs no room."""
        if not entries:
            return []
        relaxed = [Budget(rule.left + sum(map(rule.counts, entries)), rule.groups) for rule in self._rules]
        allowed = [budget.left for budget in relaxed]
        choose(relaxed)
        used = [was - budget.left for was, budget in zip(allowed, relaxed, strict=True)]
        missing = [count - rule.left if count else 0 for rule, count in zip(self._rules, used, strict=True)]
        chosen: list[Entry] = []
        for entry in entries:
            mine = [number for number, rule in enumerate(self._rules) if rule.counts(entry)]
            if any(missing[number] > 0 for number in mine):
                chosen.append(entry)
                for number in mine:
                    missing[number] -= 1
        return chosen

    def spend(self, started: Sequence[Group]) -> None:
        """Take these starts from the buckets. The limits must be locked."""
        for limit, bucket in self._buckets:
            used = sum(applies(limit, group) for group in started)
            if used or limit.filled_at is None:
                with connection.cursor() as cursor:
                    cursor.execute(_SPEND, [bucket.left - used, bucket.at, limit.pk])


def _in_flight_anywhere(projects: list[UUID]) -> tuple[Groups, Counter[Group], Counter[Group]]:
    """Of these projects, in all queues: their groups, what each has in flight, and of it in windows."""
    all_of, queued_of = Counter[Group](), Counter[Group]()
    with connection.cursor() as cursor:
        cursor.execute(IN_FLIGHT_ANYWHERE, [projects])
        for project_id, key, count, queued in cursor.fetchall():
            all_of[project_id, key], queued_of[project_id, key] = count, queued
    return Groups(all_of), all_of, queued_of

"""Shares: which groups come next in a lane and tier. Pure.

A group is a project, or a project's concurrency key. Projects share the slots of a queue by their weights, whatever
their tasks' length; the keys of a project share its slots equally. A group that is alone gets everything. Of equals
the one with fewer tasks in windows comes first: what runs ends sooner. Then the oldest waiting task decides, so no
group waits for ever.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import heapify, heappop, heapreplace
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

Group = tuple[UUID, str]
"""Project and concurrency key."""


class WaitingGroup(NamedTuple):
    """A group with waiting tasks in a lane and tier."""

    project_id: UUID
    concurrency_key: str
    oldest: datetime  # first_enqueued_at of the first waiting task
    weight: int = 1

    @property
    def group(self) -> Group:
        return self.project_id, self.concurrency_key


@dataclass(slots=True)
class Budget:
    """What a limit still allows, and to which of the waiting groups it applies."""

    left: int
    groups: frozenset[Group]


_Key = tuple[int, int, datetime, Group]
"""What a group has in flight, and of it in windows; its oldest waiting task; the group. The least comes first."""


@dataclass(slots=True)
class _Project:
    weight: int
    in_flight: int
    queued: int
    oldest: datetime
    keys: list[_Key] = field(default_factory=list)

    @property
    def rank(self) -> tuple[float, float, datetime]:
        """In flight for its weight, with one more; of it in windows."""
        return (self.in_flight + 1) / self.weight, (self.queued + 1) / self.weight, self.oldest

    def __lt__(self, other: "_Project") -> bool:
        return self.rank < other.rank


def next_groups(
    waiting: Iterable[WaitingGroup],
    in_flight: Mapping[Group, int],
    room: int,
    budgets: Sequence[Budget] = (),
    *,
    queued: Mapping[Group, int] = MappingProxyType({}),
) -> list[Group]:
    """The groups of the next tasks, one per task, in order. A group may have fewer tasks than it is named. `queued`: of
    what is in flight, what no engine has started."""
    of_group: dict[Group, list[Budget]] = {}
    for budget in budgets:
        for group in budget.groups:
            of_group.setdefault(group, []).append(budget)
    projects = _heap(waiting, in_flight, queued)
    chosen: list[Group] = []
    while projects and len(chosen) < room:
        project = projects[0]
        flying, in_windows, oldest, group = project.keys[0]
        limits = of_group.get(group, ())
        if any(budget.left <= 0 for budget in limits):
            heappop(project.keys)
        else:
            for budget in limits:
                budget.left -= 1
            chosen.append(group)
            project.in_flight += 1
            project.queued += 1
            heapreplace(project.keys, (flying + 1, in_windows + 1, oldest, group))
        if project.keys:
            heapreplace(projects, project)
        else:
            heappop(projects)
    return chosen


def _heap(
    waiting: Iterable[WaitingGroup], in_flight: Mapping[Group, int], queued: Mapping[Group, int]
) -> list[_Project]:
    flying, in_windows = _by_project(in_flight), _by_project(queued)
    projects: dict[UUID, _Project] = {}
    for each in waiting:
        project_id, _, oldest, weight = each
        project = projects.get(project_id)
        if project is None:
            project = _Project(weight, flying[project_id], in_windows[project_id], oldest)
            projects[project_id] = project
        project.oldest = min(project.oldest, oldest)
        group = each.group
        project.keys.append((in_flight.get(group, 0), queued.get(group, 0), oldest, group))
    found = list(projects.values())
    for project in found:
        heapify(project.keys)
    heapify(found)
    return found


def _by_project(counts: Mapping[Group, int]) -> Counter[UUID]:
    of_project: Counter[UUID] = Counter()
    for (project_id, _), count in counts.items():
        of_project[project_id] += count
    return of_project

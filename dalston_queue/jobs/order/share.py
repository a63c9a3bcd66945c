"""Shares: which groups come next in a lane and tier. Pure.

A group is a project, or a project's concurrency key. Projects share the slots of a queue by their weights, whatever
their tasks' length; the keys of a project share its slots equally. A group that is alone gets everything. Between
equals the oldest waiting task decides, so no group waits for ever.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import heapify, heappop, heapreplace
from uuid import UUID

Group = tuple[UUID, str]
"""Project and concurrency key."""


@dataclass(frozen=True, slots=True)
class WaitingGroup:
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


@dataclass(slots=True)
class _Key:
    in_flight: int
    oldest: datetime
    group: Group

    def __lt__(self, other: "_Key") -> bool:
        return (self.in_flight, self.oldest, self.group) < (other.in_flight, other.oldest, other.group)


@dataclass(slots=True)
class _Project:
    weight: int
    in_flight: int
    oldest: datetime
    keys: list[_Key] = field(default_factory=list)

    @property
    def load(self) -> float:
        """In flight for its weight, with one more."""
        return (self.in_flight + 1) / self.weight

    def __lt__(self, other: "_Project") -> bool:
        return (self.load, self.oldest) < (other.load, other.oldest)


def next_groups(
    waiting: Iterable[WaitingGroup], in_flight: Mapping[Group, int], room: int, budgets: Sequence[Budget] = ()
) -> list[Group]:
    """The groups of the next tasks, one per task, in order. A group may have fewer tasks than it is named."""
    of_group: dict[Group, list[Budget]] = {}
    for budget in budgets:
        for group in budget.groups:
            of_group.setdefault(group, []).append(budget)
    projects = _heap(waiting, in_flight)
    chosen: list[Group] = []
    while projects and len(chosen) < room:
        project = projects[0]
        key = project.keys[0]
        limits = of_group.get(key.group, ())
        if any(budget.left <= 0 for budget in limits):
            heappop(project.keys)
        else:
            for budget in limits:
                budget.left -= 1
            chosen.append(key.group)
            project.in_flight += 1
            heapreplace(project.keys, _Key(key.in_flight + 1, key.oldest, key.group))
        if project.keys:
            heapreplace(projects, project)
        else:
            heappop(projects)
    return chosen


def _heap(waiting: Iterable[WaitingGroup], in_flight: Mapping[Group, int]) -> list[_Project]:
    of_project: Counter[UUID] = Counter()
    for (project_id, _), count in in_flight.items():
        of_project[project_id] += count
    projects: dict[UUID, _Project] = {}
    for each in waiting:
        project = projects.setdefault(each.project_id, _Project(each.weight, of_project[each.project_id], each.oldest))
        project.oldest = min(project.oldest, each.oldest)
        project.keys.append(_Key(in_flight.get(each.group, 0), each.oldest, each.group))
    found = list(projects.values())
    for project in found:
        heapify(project.keys)
    heapify(found)
    return found

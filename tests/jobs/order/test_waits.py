"""Waits in simulated time: below an endless load of high priority that is more than the engine can do, every task
starts within 30 minutes of its first enqueue and one service time more, a retried one as well."""

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from dalston_queue.broker import Delivery
from dalston_queue.broker.protocol.messages import ErrorInfo, Failed, Outcome
from dalston_queue.broker.protocol.types import Priority
from dalston_queue.models import Project, Task
from tests.jobs import make
from tests.jobs.order.simulation import Simulation, succeed

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.keeps_keys]
MAX_WAIT = timedelta(minutes=30)
OVERLOAD = 1.2
BACKOFF = timedelta(minutes=1)  # at most, and until the next round

Simulate = Callable[[int], Simulation]


class Overload:
    """Arrivals of a round: 120 % of what the engine can do, all of it high but one task of medium and one of low
    priority every ten minutes."""

    def __init__(self, sim: Simulation, dice: random.Random, projects: list[Project], attempts: float = 1.0) -> None:
        self.sim, self.dice, self.projects = sim, dice, projects
        self._per_round = OVERLOAD * sim.consumer.capacity / attempts  # `attempts` of a task on average
        self._due = 0.0

    def __call__(self) -> None:
        due = {Priority.HIGH: self._per_round}
        if self.sim.rounds % 10 == self.dice.randrange(2):
            due |= {Priority.MEDIUM: 1.0, Priority.LOW: 1.0}
            due[Priority.HIGH] -= 2.0
        self._due += due[Priority.HIGH]
        high = int(self._due)
        self._due -= high
        for project in self.projects:
            count = high // len(self.projects)
            self.sim.submit(project, count, priority=Priority.HIGH)
        self.sim.submit(self.dice.choice(self.projects), high % len(self.projects), priority=Priority.HIGH)
        for priority in (Priority.MEDIUM, Priority.LOW):
            if priority in due:
                self.sim.submit(self.dice.choice(self.projects), priority=priority)


def drained(sim: Simulation) -> None:
    """No more arrivals: what waits is started."""
    while Task.objects.exclude(status="completed").exists():
        sim.round()


def check_waits(sim: Simulation) -> None:
    due: dict[UUID, datetime] = {}  # when the next attempt of a task may start at the latest
    for start in sim.starts:
        since_first = start.at - start.wait + MAX_WAIT + sim.service
        assert start.at <= due.get(start.task_id, since_first), start
        # An aged task comes first: it waits for what is in the window and for what runs.
        due[start.task_id] = max(since_first, start.at + sim.service + BACKOFF + 4 * sim.service)
    longest = {priority: max(s.wait for s in sim.starts if s.priority == priority) for priority in Priority}
    print(f"{len(sim.starts)} starts; longest waits: { ({str(p): str(wait) for p, wait in longest.items()}) }")


def fail_often(dice: random.Random) -> Callable[[Delivery], Outcome]:
    def answer(delivery: Delivery) -> Outcome:
        if delivery.message.attempt < 3 and dice.random() < 0.1:
            return Failed(ErrorInfo(message="again"))
        return succeed(delivery)

    return answer


def test_below_endless_high_load_every_task_starts_within_its_bound(simulate: Simulate) -> None:
    """Short: a backlog of 16 minutes, as 80 minutes of this load leave it, and 40 minutes more. A tenth of the attempts
    fails."""
    sim = simulate(4)
    sim.answer = fail_often(random.Random(7))
    project = make.project()
    for age in range(16, 0, -1):
        sim.now = make.NOW - timedelta(minutes=age)
        sim.submit(project, 4, priority=Priority.HIGH)
    sim.now = make.NOW
    sim.play(40, Overload(sim, random.Random(16), [project], attempts=1.11))
    drained(sim)
    check_waits(sim)
    assert {start.attempt for start in sim.starts} == {1, 2, 3}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("projects", [1, 3])
def test_two_hours_of_it(simulate: Simulate, projects: int) -> None:
    sim = simulate(8)
    sim.play(120, Overload(sim, random.Random(33), [make.project(f"p-{number}") for number in range(projects)]))
    drained(sim)
    check_waits(sim)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_hours_of_it_with_failures_that_are_retried(simulate: Simulate) -> None:
    sim = simulate(8)
    sim.answer = fail_often(random.Random(1))
    sim.play(120, Overload(sim, random.Random(2), [make.project()], attempts=1.11))
    drained(sim)
    check_waits(sim)
    assert any(start.attempt > 1 for start in sim.starts)

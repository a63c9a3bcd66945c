"""Fairness in simulated rounds of equal tasks: projects share the slots by their weights, keys of a project equally."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from uuid import UUID

import pytest

from bench.harness.ready_tasks import add_ready
from dalston_queue.broker import Broker
from dalston_queue.models import Limit, Project
from tests.jobs import make
from tests.jobs.order.simulation import QUEUE, Simulation, Start, simulation
from tests.orchestrator.support import Steps

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.keeps_keys]
Simulate = Callable[[int], Simulation]


@pytest.fixture
def simulate(broker: Broker, steps: Steps) -> Iterator[Simulate]:
    """With tasks of a second: nothing ages."""
    with ExitStack() as stack:
        yield lambda slots: stack.enter_context(simulation(broker, steps, slots=slots, service=timedelta(seconds=1)))


@pytest.mark.parametrize("slots", [1, 4, pytest.param(8, marks=pytest.mark.slow)])
def test_ten_tasks_are_done_within_twenty_rounds_behind_ten_thousand_of_another_project(
    slots: int, simulate: Simulate
) -> None:
    many, few = make.project("many"), make.project("few")
    add_ready(10_000, [many.pk])
    sim = simulate(slots)
    sim.play(3)
    sim.submit(few, 10)
    before = sim.rounds
    while sim.count(lambda start: start.project_id)[few.pk] < 10:
        sim.round()
    print(f"{slots} slots: {sim.rounds - before} rounds")
    # With one slot the two take turns, behind the window of four that was there.
    assert sim.rounds - before <= (24 if slots == 1 else 20)


@pytest.mark.parametrize("slots", [8, pytest.param(4, marks=pytest.mark.slow)])
def test_weights_of_three_to_one_give_three_to_one_slots(slots: int, simulate: Simulate) -> None:
    heavy, light = make.project("heavy"), make.project("light")
    Project.objects.filter(pk=heavy.pk).update(weight=3)
    for project in (light, heavy):
        add_ready(200, [project.pk])
    sim = simulate(slots)
    sim.play(160 // slots)
    share = sim.count(lambda start: start.project_id)[heavy.pk] / len(sim.starts)
    print(f"{slots} slots: {share:.1%} of {len(sim.starts)} starts")
    assert abs(share - 0.75) <= 0.05 * 0.75


@pytest.mark.parametrize("count", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_every_one_of_many_groups_goes_on(count: int, simulate: Simulate) -> None:
    projects = Project.objects.bulk_create(Project(name=f"project-{number}") for number in range(count))
    add_ready(5 * count, [project.pk for project in projects])
    sim = simulate(50)
    sim.play(2 * count // 50)
    starts = sim.count(lambda start: start.project_id)
    assert len(starts) == count
    assert max(starts.values()) <= 3


def test_the_keys_of_a_project_share_equally_and_gain_nothing_against_another_project(simulate: Simulate) -> None:
    keys, alone = make.project("keys"), make.project("alone")
    add_ready(200, [alone.pk])
    add_ready(450, [keys.pk], keys=9)
    sim = simulate(8)
    sim.play(27)
    by_project = sim.count(lambda start: start.project_id)
    assert abs(by_project[keys.pk] - by_project[alone.pk]) <= 0.05 * len(sim.starts)
    by_key = [count for (project_id, _), count in sim.count(group).items() if project_id == keys.pk]
    assert len(by_key) == 9
    assert max(by_key) - min(by_key) <= 2


def group(start: Start) -> tuple[UUID, str]:
    return start.project_id, start.key


def test_keys_that_come_last_have_their_turn_beside_hundreds_of_others(simulate: Simulate) -> None:
    """Of a project with more than MAX_KEYS keys not all are read each time."""
    project = make.project()
    add_ready(1000, [project.pk], key="big")
    add_ready(3000, [project.pk], keys=500, oldest="2026-01-01T12:00:01Z")
    sim = simulate(32)
    sim.play(35)
    starts = sim.count(lambda start: start.key)
    assert len(starts) == 501
    assert max(count for key, count in starts.items() if key != "big") <= 3


def test_tasks_held_by_a_limit_do_not_hold_up_the_others(simulate: Simulate) -> None:
    held, free = make.project("held"), make.project("free")
    add_ready(5000, [held.pk])
    Limit.objects.create(queue=QUEUE, project=held, max_in_flight=1)
    sim = simulate(8)
    sim.submit(free, 70)
    sim.play(10)
    starts = sim.count(lambda start: start.project_id)
    assert starts[free.pk] == 70
    # One at a time, and what waits in a window is in flight: it waits there behind the others.
    assert 3 <= starts[held.pk] <= 10

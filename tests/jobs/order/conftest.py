"""Fixtures for the order: simulated time on the real database and a broker of the test's own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from dalston_queue.broker import Broker
from tests.jobs.order.simulation import Simulation, simulation
from tests.orchestrator.conftest import steps
from tests.orchestrator.support import Steps

__all__ = ["steps"]


@pytest.fixture
def simulate(broker: Broker, steps: Steps) -> Iterator[Callable[[int], Simulation]]:
    """A simulation with an engine of so many slots."""
    with ExitStack() as stack:
        yield lambda slots: stack.enter_context(simulation(broker, steps, slots=slots))

"""Fixtures for the orchestrator's tests: the real database with real commits, and a broker of the test's own."""

from collections.abc import Callable, Iterator

import pytest

from dalston_queue.broker import Broker
from tests.jobs.conftest import no_hints
from tests.orchestrator.processes import Orchestrators
from tests.orchestrator.support import Steps
from tests.support import Spawned

__all__ = ["no_hints"]


@pytest.fixture
def orchestrators(
    spawn: Callable[..., Spawned], process_env: dict[str, str], database_url: str, broker: Broker
) -> Orchestrators:
    return Orchestrators(spawn, process_env, database_url)


@pytest.fixture
def steps(transactional_db: None, broker: Broker) -> Iterator[Steps]:
    steps = Steps(broker)
    steps.events()
    yield steps
    steps.reader.close()

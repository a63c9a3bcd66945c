"""Fixtures for the orchestrator's tests: the real database with real commits, and a broker of the test's own."""

from collections.abc import Iterator

import pytest

from dalston_queue.broker import Broker
from tests.jobs.conftest import no_hints
from tests.orchestrator.support import Steps

__all__ = ["no_hints"]


@pytest.fixture
def steps(transactional_db: None, broker: Broker) -> Iterator[Steps]:
    steps = Steps(broker)
    steps.events()
    yield steps
    steps.reader.close()

"""Fixtures for the orchestrator's tests: the real database with real commits, and a broker of the test's own."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from dalston_queue.broker import Broker
from tests.orchestrator.support import Steps


@pytest.fixture
def steps(transactional_db: None, broker: Broker) -> Iterator[Steps]:
    steps = Steps(broker)
    steps.events()
    yield steps
    steps.reader.close()


@pytest.fixture
def no_hints(settings: Settings) -> None:
    """Redis is absent: submissions are accepted all the same, and the hint goes nowhere."""
    settings.REDIS_URL = "redis://127.0.0.1:1/0"

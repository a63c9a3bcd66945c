"""Fixtures for the tests of metrics: readings that are never older than the question."""

from collections import deque
from collections.abc import Iterator

import pytest

from dalston_queue.broker import Broker
from dalston_queue.dashboard.overview.read import latest
from dalston_queue.metrics.reading import readings
from tests.jobs.conftest import no_hints
from tests.orchestrator.conftest import orchestrators
from tests.orchestrator.support import Steps

__all__ = ["no_hints", "orchestrators"]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "fresh_s", -1.0)
    monkeypatch.setattr(latest, "fresh_s", -1.0)
    monkeypatch.setattr(latest, "_past", deque())


@pytest.fixture
def steps(transactional_db: None, broker: Broker) -> Iterator[Steps]:
    steps = Steps(broker)
    steps.events()
    yield steps
    steps.reader.close()

"""What each attack has: the names that a process remembers are those of this test's tables."""

from collections.abc import Iterator

import pytest

from dalston_queue.jobs.submit import lanes
from tests.api.conftest import project, token_for
from tests.broker.conftest import engine

__all__ = ["engine", "project", "token_for"]


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    lanes.forget()
    yield
    lanes.forget()

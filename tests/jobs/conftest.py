"""Fixtures for tests of jobs that are about Postgres only."""

import pytest
from pytest_django import Settings


@pytest.fixture
def no_hints(settings: Settings) -> None:
    """Redis is absent: submissions are accepted all the same, and the hint goes nowhere."""
    settings.REDIS_URL = "redis://127.0.0.1:1/0"

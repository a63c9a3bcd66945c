"""Fixtures for tests of jobs that need only Postgres."""

import pytest
from pytest_django import Settings


@pytest.fixture
def no_hints(settings: Settings) -> None:
    """Redis is away: submissions are accepted, and their hint is lost."""
    settings.REDIS_URL = "redis://127.0.0.1:1/0"

"""Fixtures for the tests of alerts: a reading that is never older than the question, as for the metrics."""

from tests.dashboard.conftest import fresh as fresh_pages
from tests.dashboard.conftest import operator, viewer
from tests.metrics.conftest import fresh, steps
from tests.orchestrator.conftest import orchestrators

__all__ = ["fresh", "fresh_pages", "operator", "orchestrators", "steps", "viewer"]

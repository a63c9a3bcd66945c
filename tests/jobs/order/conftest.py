"""The orchestrator of these tests, driven step by step."""

from tests.orchestrator.conftest import steps

__all__ = ["steps"]

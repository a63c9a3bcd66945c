"""The orchestrator of these tests, driven step by step or as real processes."""

from tests.orchestrator.conftest import orchestrators, steps

__all__ = ["orchestrators", "steps"]

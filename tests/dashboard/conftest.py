"""Fixtures of the dashboard's tests."""

from tests.web import web

__all__ = ["web"]

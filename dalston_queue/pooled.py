"""Waiting without a database connection: the pool has few, and a request that sleeps needs none."""

from __future__ import annotations

from django.db import connection


def give_connection_back() -> None:
    """Back to the pool, before a wait; the next query takes one again. Inside a transaction it stays."""
    if connection.connection is not None and not connection.in_atomic_block:
        connection.close()

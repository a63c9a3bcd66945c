"""A database of its own on the private Postgres, for one round of one system."""

import time
from typing import LiteralString

import psycopg

from bench.harness.processes import PeerError

PATIENCE_S = 60.0


class Database:
    def __init__(self, postgres_url: str, number: int) -> None:
        name = f"round_{number}"
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name)))
        self.url = f"{postgres_url.rpartition('/')[0]}/{name}"

    def count(self, query: LiteralString) -> int:
        with psycopg.connect(self.url) as connection:
            return _number(connection, query)

    def wait_for(self, query: LiteralString, wanted: int) -> float:
        """When the count was reached, by the monotonic clock."""
        end = time.monotonic() + PATIENCE_S
        with psycopg.connect(self.url, autocommit=True) as connection:
            while True:
                found, now = _number(connection, query), time.monotonic()
                if found >= wanted:
                    return now
                if now > end:
                    raise PeerError(f"{found} of {wanted} were completed within {PATIENCE_S:.0f} s")
                time.sleep(0.02)


def _number(connection: psycopg.Connection[tuple[int]], query: LiteralString) -> int:
    row = connection.execute(query).fetchone()
    return row[0] if row else 0

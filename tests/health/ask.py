"""Asks /healthz and /readyz as a probe does: without a token, by IP, with a timeout."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection as database

from tests.support import wait_until

Document = dict[str, Any]
BOUND_S = 5.0
"""A probe's usual timeout is longer than the 3 s in which /readyz answers, whatever hangs."""


def ask(port: int, path: str, host: str = "", method: str = "GET", timeout: float = 20) -> tuple[int, Document]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.getheader("Cache-Control") == "no-store"
        return answer.status, json.loads(body) if body else {}
    finally:
        connection.close()


def reason(port: int, path: str, check: str) -> str:
    """Why this check fails; empty if it doesn't."""
    _, found = ask(port, path)
    return str(found["checks"].get(check, {}).get("reason", ""))


def status(port: int, path: str) -> int:
    """0 without an answer."""
    try:
        return ask(port, path)[0]
    except OSError:
        return 0


def becomes(port: int, path: str, code: int) -> None:
    wait_until(lambda: status(port, path) == code, what=lambda: f"{path} answers {code}: {ask(port, path)}")


@contextmanager
def a_migration_missing() -> Iterator[None]:
    with database.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'dalston_queue' AND name LIKE '0002%%' RETURNING *")
        (row,) = cursor.fetchall()
        try:
            yield
        finally:
            cursor.execute("INSERT INTO django_migrations VALUES (%s, %s, %s, %s)", row)


def timed(port: int, path: str) -> float:
    began = time.monotonic()
    ask(port, path)
    return time.monotonic() - began

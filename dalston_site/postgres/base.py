"""Postgres backend of the web process: Django's own behind a circuit breaker, for a database with a pool.

A server that is stopped, or whose disk is, breaks no connection: its kernel goes on acknowledging what is sent, so
`tcp_user_timeout` does not fire, and `statement_timeout` is the stopped server's own. A client-side timeout of answers
would end slow queries as well. So a connection that has waited for `SUSPECT_S` asks over a new one whether Postgres
answers at all. If not, the breaker opens: waiting requests get an error, new requests get it at once, before they wait
for the pool, and one at a time tries again.
"""

import math
import threading
import time
from collections.abc import Generator, Mapping
from typing import Any, Self, TypeVar

import psycopg
from django.db.backends.postgresql import base
from psycopg.abc import PQGen
from psycopg.errors import ConnectionTimeout

from dalston_queue.broker.connection.breaker import OPEN_S, Breaker

SUSPECT_S = 2.0
CONNECT_TIMEOUT_S = 2
"""libpq accepts no shorter connect_timeout."""
INTERVAL_S = 0.1

Result = TypeVar("Result")

breaker = Breaker()
_probing = threading.Lock()
_probed_at = -math.inf


class DatabaseWrapper(base.DatabaseWrapper):
    def __init__(self, settings_dict: dict[str, Any], alias: str = "default") -> None:
        super().__init__(settings_dict, alias)
        settings_dict["OPTIONS"]["pool"]["connection_class"] = GuardedConnection

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        if not breaker.allows():
            raise _hung()
        return super().get_new_connection(conn_params)


class GuardedConnection(psycopg.Connection[Any]):
    """Stops waiting when Postgres does not answer a new connection either."""

    @classmethod
    def connect(cls, *args: Any, **kwargs: Any) -> Self:
        try:
            return super().connect(*args, **kwargs)
        except ConnectionTimeout:
            breaker.open()
            raise

    def wait(self, gen: PQGen[Result], interval: float = INTERVAL_S, timeout: float | None = None) -> Result:
        result = super().wait(self._watched(gen), interval, timeout)
        breaker.close()
        return result

    def _watched(self, gen: PQGen[Result]) -> Generator[Any, Any, Result]:
        """The steps of `gen`. After each `interval` without an answer psycopg sends READY_NONE, which is false."""
        suspect_at = time.monotonic() + (0 if breaker.is_open else SUSPECT_S)
        try:
            step = next(gen)
            while True:
                ready = yield step
                if not ready and time.monotonic() > suspect_at:
                    if _hangs(self.pgconn.info):
                        self.pgconn.finish()  # the answer may still come: no later query must read it
                        raise _hung()
                    suspect_at = time.monotonic() + SUSPECT_S
                step = gen.send(ready)
        except StopIteration as end:
            result: Result = end.value
            return result


class _Probe(psycopg.Connection[Any]):
    def wait(self, gen: PQGen[Result], interval: float = INTERVAL_S, timeout: float | None = None) -> Result:
        return super().wait(gen, interval, CONNECT_TIMEOUT_S if timeout is None else timeout)


def _hangs(options: Any) -> bool:
    """Asks over a new connection. Calls meanwhile and soon after share its answer."""
    global _probed_at  # noqa: PLW0603 - of the one server
    with _probing:
        if _probed_at < time.monotonic() - OPEN_S:
            answers = _answers({option.keyword.decode(): option.val.decode() for option in options if option.val})
            breaker.close() if answers else breaker.open()
            _probed_at = time.monotonic()
    return breaker.is_open


def _answers(options: Mapping[str, Any]) -> bool:
    """A refusal is an answer, too; an error after the whole timeout is none."""
    began = time.monotonic()
    try:
        fresh = _Probe.connect(autocommit=True, **{**options, "connect_timeout": CONNECT_TIMEOUT_S})
        try:
            fresh.execute("SELECT 1")  # a pooler in between accepts connections by itself
        finally:
            fresh.pgconn.finish()
    except psycopg.Error:
        return time.monotonic() - began < CONNECT_TIMEOUT_S
    return True


def _hung() -> psycopg.OperationalError:
    return psycopg.OperationalError("Postgres hangs: it takes connections and does not answer")

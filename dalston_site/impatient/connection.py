"""A connection that gives up when the server answers nobody, and the question whether it does."""

import time
from collections.abc import Generator, Mapping
from typing import Any, Self, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.errors import ConnectionTimeout

from dalston_site.impatient.patience import patience

SUSPECT_S = 2.0
CONNECT_S = 2
"""The shortest that libpq knows."""
INTERVAL_S = 0.1

Result = TypeVar("Result")


class ImpatientConnection(psycopg.Connection[Any]):
    @classmethod
    def connect(cls, *args: Any, **kwargs: Any) -> Self:
        try:
            return super().connect(*args, **kwargs)
        except ConnectionTimeout:
            patience.hung()
            raise

    def wait(self, gen: PQGen[Result], interval: float = INTERVAL_S, timeout: float | None = None) -> Result:
        result = super().wait(self._watched(gen), interval, timeout)
        patience.answered()
        return result

    def _watched(self, gen: PQGen[Result]) -> Generator[Any, Any, Result]:
        """The same steps. After an `interval` without news from the server, psycopg sends one that is false."""
        suspect_at = time.monotonic() + (0 if patience.hangs else SUSPECT_S)
        try:
            step = next(gen)
            while True:
                ready = yield step
                if not ready and time.monotonic() > suspect_at:
                    self._ask()
                    suspect_at = time.monotonic() + SUSPECT_S
                step = gen.send(ready)
        except StopIteration as end:
            result: Result = end.value
            return result

    def _ask(self) -> None:
        address = {option.keyword.decode(): option.val.decode() for option in self.pgconn.info if option.val}
        try:
            patience.ask(lambda: _hangs(address))
        except psycopg.OperationalError:
            self.pgconn.finish()  # the answer may still come: nobody must take it for his own
            raise


class _Probe(psycopg.Connection[Any]):
    def wait(self, gen: PQGen[Result], interval: float = INTERVAL_S, timeout: float | None = None) -> Result:
        return super().wait(gen, interval, CONNECT_S if timeout is None else timeout)


def _hangs(address: Mapping[str, Any]) -> bool:
    """A refusal is an answer, too; an error after all of the time is none."""
    began = time.monotonic()
    try:
        fresh = _Probe.connect(autocommit=True, **{**address, "connect_timeout": CONNECT_S})
        try:
            fresh.execute("SELECT 1")  # a pooler in between lets anybody in
        finally:
            fresh.pgconn.finish()
    except psycopg.Error:
        return time.monotonic() - began >= CONNECT_S
    return False

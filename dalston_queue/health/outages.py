"""Outages of Postgres and Redis: a line when one begins, and one when the server answers again.

Many callers in a process meet the same outage many times a second. The first reports it here; a thread then asks the
server each second, and reports its return. So the return is neither missed nor reported too early.
"""

from __future__ import annotations

import threading
import time

import structlog
from django.db import Error, InterfaceError, OperationalError

from dalston_queue.broker.errors import Unavailable
from dalston_queue.health import servers
from dalston_queue.health.report import TIMEOUT_S, Grade, Probe

log = structlog.get_logger(__name__)

ASK_EVERY_S = 1.0
# SQLSTATE classes of a lost connection and of a server that ends. A statement that took too long is no outage.
_AWAY = ("08", "57P")


class _Server:
    def __init__(self, name: str, probe: Probe) -> None:
        self.name = name
        self._probe = probe
        self._lock = threading.Lock()
        self._is_watched = False

    def away(self, error: Exception) -> None:
        with self._lock:
            if self._is_watched:
                return
            self._is_watched = True
        arguments = (" ".join(str(error).split())[:300],)
        threading.Thread(target=self._watch, args=arguments, name=f"outage of {self.name}", daemon=True).start()

    def _watch(self, error: str) -> None:
        """A connection that broke in an outage before this one is no outage: the server is asked first."""
        began = time.monotonic()
        if not self._answers():
            log.warning("a server does not answer", server=self.name, error=error)
            while not self._answers():
                time.sleep(ASK_EVERY_S)
            log.info("a server answers again", server=self.name, seconds=round(time.monotonic() - began, 1))
        with self._lock:
            self._is_watched = False

    def _answers(self) -> bool:
        self._probe.start()
        return self._probe.result(time.monotonic() + TIMEOUT_S)[self.name].status is Grade.OK


_postgres = _Server("postgres", Probe(("postgres", "migrations"), servers.ask_postgres))
_redis = _Server("redis", Probe(("redis", "events"), servers.ask_redis))


def report(error: Exception) -> bool:
    """True if this error is an outage: it is in the log then, and needs no further line."""
    if isinstance(error, Unavailable):
        _redis.away(error)
        return True
    if isinstance(error, Error) and _is_outage(error):
        _postgres.away(error)
        return True
    return False


def _is_outage(error: Error) -> bool:
    sqlstate: str | None = getattr(error.__cause__, "sqlstate", None)
    if sqlstate is None:  # the server never answered
        return isinstance(error, OperationalError | InterfaceError)
    return sqlstate.startswith(_AWAY)

"""The process-wide Broker, made from the settings on first use. It connects lazily: Redis may be absent.

The web process calls `mark_web_process()`: its broker has a short timeout, holds no connection to Postgres while it
waits, and has a circuit breaker for a Redis that hangs. Other processes need neither: no client waits for them.
"""

from collections.abc import Callable
from functools import lru_cache

from django.conf import settings

from dalston_queue.broker import Broker, connect
from dalston_queue.broker.connection.topology import SOCKET_TIMEOUT_S
from dalston_queue.broker.engine.breaker import BreakerRules
from dalston_queue.database import release_connection

WEB_TIMEOUT_S = 2.0

_is_web_process = False


def mark_web_process() -> None:
    """Called by the web process, before its first call to Redis."""
    global _is_web_process  # noqa: PLW0603 - what kind of process this is
    _is_web_process = True


def is_web_process() -> bool:
    return _is_web_process


def breaker_rules() -> BreakerRules:
    """Of the circuit breakers of workers over HTTP."""
    return BreakerRules(
        settings.DALSTON_BREAKER_FAILURES, settings.DALSTON_BREAKER_OPEN_S, settings.DALSTON_BREAKER_TRIALS
    )


def get_broker() -> Broker:
    """The broker of this process. A test that changes the settings gets another."""
    if _is_web_process:
        return _connected(*_server(), WEB_TIMEOUT_S, _before_each)
    return _connected(*_server(), SOCKET_TIMEOUT_S)


def probe() -> Broker:
    """A broker for health checks: a short timeout, and no circuit breaker, so that Redis is asked each time."""
    _before_each()
    return _connected(*_server(), WEB_TIMEOUT_S)


def _server() -> tuple[str, str, bool, str]:
    return (
        settings.REDIS_URL,
        settings.DALSTON_REDIS_PREFIX,
        settings.DALSTON_REDIS_CLUSTER,
        settings.DALSTON_REDIS_URLS,
    )


@lru_cache(maxsize=2)
def _connected(
    url: str,
    prefix: str,
    cluster: bool,
    shards: str,
    timeout_s: float,
    before_each: Callable[[], None] | None = None,
) -> Broker:
    return connect(url, prefix=prefix, cluster=cluster, shards=shards, timeout_s=timeout_s, before_each=before_each)


def _before_each() -> None:
    """Return the Postgres connection to its pool while Redis answers. Without a pool a new connection costs more."""
    if settings.DALSTON_DB_POOL_SIZE:
        release_connection()

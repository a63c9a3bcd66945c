"""The process-wide Broker, made from the settings on first use. It connects lazily: Redis may be absent.

Most of what a request asks Redis for it can do without: how full a queue is, how often a token called, telling the
orchestrators at once. That goes through `hasty()`, so that a Redis that hangs keeps a submission for a moment only.
"""

import math
import time
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from django.conf import settings
from django.db import connection

from dalston_queue.broker import Broker, connect
from dalston_queue.broker.errors import Unavailable
from dalston_queue.broker.urls import SOCKET_TIMEOUT_S

HASTE_S = 2.0
AWAY_S = 2.0

T = TypeVar("T")


class Hasty:
    """Asks Redis for what can be done without: waits briefly, and after a failure does not ask at all for a while."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._away_until = -math.inf

    def ask(self, question: Callable[[Broker], T]) -> T:
        """Raises BrokerError."""
        if time.monotonic() < self._away_until:
            raise Unavailable("Redis did not answer a moment ago, and was not asked again")
        _give_connection_back()
        try:
            return question(self.broker)
        except Unavailable:
            self._away_until = time.monotonic() + AWAY_S
            raise


def get_broker() -> Broker:
    """The one broker of this process. A test that changes the settings gets one of its own."""
    return _connected(*_place(), SOCKET_TIMEOUT_S)


def hasty() -> Hasty:
    """The same Redis, for who is in a hurry."""
    return _hasty(*_place())


def _place() -> tuple[str, str, bool, str]:
    return (
        settings.REDIS_URL,
        settings.DALSTON_REDIS_PREFIX,
        settings.DALSTON_REDIS_CLUSTER,
        settings.DALSTON_REDIS_URLS,
    )


@lru_cache(maxsize=2)
def _connected(url: str, prefix: str, cluster: bool, shards: str, timeout_s: float) -> Broker:
    return connect(url, prefix=prefix, cluster=cluster, shards=shards, timeout_s=timeout_s)


@lru_cache(maxsize=1)
def _hasty(url: str, prefix: str, cluster: bool, shards: str) -> Hasty:
    return Hasty(_connected(url, prefix, cluster, shards, HASTE_S))


def _give_connection_back() -> None:
    """To the pool: requests that wait for Redis must not keep those that need Postgres out."""
    if settings.DALSTON_DB_POOL_SIZE and not connection.in_atomic_block:
        connection.close()

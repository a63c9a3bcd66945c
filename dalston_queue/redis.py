"""The process-wide Broker, made from the settings on first use. It connects lazily: Redis may be absent.

A process that answers people says so with `answer_people()`: its broker waits briefly, keeps no connection to Postgres
meanwhile, and does not ask a Redis again that hangs. Orchestrators and workers have no one who waits for them.

Most of what a request asks Redis for it can do without: how full a queue is, how often a token called, telling the
orchestrators at once. That goes through `hasty()`, so that a Redis that is away keeps a submission for a moment only.
"""

import math
import time
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from django.conf import settings

from dalston_queue.broker import Broker, connect
from dalston_queue.broker.connection.haste import AWAY_S
from dalston_queue.broker.connection.urls import SOCKET_TIMEOUT_S
from dalston_queue.broker.errors import Unavailable
from dalston_queue.pooled import give_connection_back

HASTE_S = 2.0

T = TypeVar("T")
_answers_people = False


class Hasty:
    """Asks Redis for what can be done without: waits briefly, and after a failure does not ask at all for a while."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._away_until = -math.inf

    def ask(self, question: Callable[[Broker], T]) -> T:
        """Raises BrokerError."""
        if time.monotonic() < self._away_until:
            raise Unavailable("Redis did not answer a moment ago, and was not asked again")
        try:
            return question(self._broker)
        except Unavailable:
            self._away_until = time.monotonic() + AWAY_S
            raise


def answer_people() -> None:
    """Said by the web process, before it asks for anything."""
    global _answers_people  # noqa: PLW0603 - what kind of process this is
    _answers_people = True


def answers_people() -> bool:
    return _answers_people


def get_broker() -> Broker:
    """The one broker of this process. A test that changes the settings gets one of its own."""
    return _in_haste(*_place()) if _answers_people else _connected(*_place(), SOCKET_TIMEOUT_S)


def hasty() -> Hasty:
    """The same Redis, for who is in a hurry."""
    return _hasty(*_place())


def probe() -> Broker:
    """The same Redis, for who wants to know how it is right now: briefly, but asked each time."""
    _before_each()
    return _connected(*_place(), HASTE_S)


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
def _in_haste(url: str, prefix: str, cluster: bool, shards: str) -> Broker:
    return connect(
        url,
        prefix=prefix,
        cluster=cluster,
        shards=shards,
        timeout_s=HASTE_S,
        before_each=_before_each,
    )


@lru_cache(maxsize=1)
def _hasty(url: str, prefix: str, cluster: bool, shards: str) -> Hasty:
    return Hasty(_in_haste(url, prefix, cluster, shards))


def _before_each() -> None:
    """Requests that wait for Redis must not keep those that need Postgres out. Without a pool a new one costs more."""
    if settings.DALSTON_DB_POOL_SIZE:
        give_connection_back()

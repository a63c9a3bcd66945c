"""What a redis-py exception means to us, in one place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import redis
from redis import exceptions

from dalston_queue.broker.errors import BrokerError, Denied, Misconfigured, Unavailable

# Answers of a server that is alive and will serve again: failing over, starting, resyncing, moving slots, or a disk trouble
PASSING = ("READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "NOREPLICAS", "MISCONF", "UNBLOCKED", "BUSY ")  # fmt: skip
REFUSING = ("NOPERM", "NOAUTH", "WRONGPASS")


def translate(error: Exception, where: str) -> BrokerError | None:
    """Ours for a redis-py error; None if it is a bug (a wrong command, a broken script)."""
    text = str(error)
    if isinstance(error, (exceptions.AuthenticationError, exceptions.AuthorizationError, exceptions.NoPermissionError)):
        return Misconfigured(f"{where} refuses us: {text}. Check the user, the password and the ACL in the URL")
    if isinstance(error, exceptions.OutOfMemoryError) or text.startswith("OOM"):
        return Denied(
            f"{where} is out of memory: {text}. It accepts no new work until tasks are drained or maxmemory is raised"
        )
    if isinstance(error, (redis.ConnectionError, redis.TimeoutError, exceptions.ReadOnlyError, exceptions.ClusterError, exceptions.RedisClusterException)):  # fmt: skip
        return Unavailable(f"{where} does not answer: {text or type(error).__name__}")
    if isinstance(error, redis.ResponseError):
        # inside a script the code stands behind the script's own words
        if any(text.startswith(code) or f" {code}" in text for code in PASSING):
            return Unavailable(f"{where} can't serve now: {text}")
        if any(text.startswith(code) for code in REFUSING):
            return Misconfigured(f"{where} refuses us: {text}. Check the user, the password and the ACL in the URL")
    return None


@contextmanager
def translated(where: str) -> Iterator[None]:
    try:
        yield
    except (redis.RedisError, OSError) as error:
        ours = translate(error, where)
        if ours is None:
            raise
        raise ours from error

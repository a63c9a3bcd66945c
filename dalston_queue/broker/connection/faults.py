"""Translation of redis-py's exceptions into ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import redis
from redis import exceptions

from dalston_queue.broker.errors import BrokerError, Denied, Misconfigured, Unavailable, WrongKeyType

# Transient errors: redis-py names these by class …
PASSING = (
    redis.ConnectionError,  # includes LOADING
    redis.TimeoutError,
    redis.InvalidResponse,  # bytes that are no reply: the connection is closed, the next one may be sound
    redis.ReadOnlyError,
    exceptions.AskError,  # includes MOVED
    exceptions.TryAgainError,
    exceptions.ClusterError,  # includes CLUSTERDOWN and MASTERDOWN
    exceptions.RedisClusterException,
)
# … and leaves these as text; inside a script the code follows the script's own words
PASSING_CODES = ("READONLY", "LOADING", "MASTERDOWN", "NOREPLICAS", "MISCONF", "UNBLOCKED", "BUSY ")
REFUSING = (exceptions.AuthenticationError, exceptions.AuthorizationError, exceptions.NoPermissionError)
REFUSING_CODES = ("NOPERM", "NOAUTH", "WRONGPASS", "ACL failure")


def is_wrong_type(reply: object) -> bool:
    """Also a field of a hash that is no number where ours is one."""
    text = str(reply) if isinstance(reply, redis.ResponseError) else ""
    return text.startswith("WRONGTYPE") or "hash value is not an integer" in text


def translate(error: Exception, where: str) -> BrokerError | None:
    """Ours for a redis-py error; None if it is a bug (a wrong command, a broken script)."""
    text = str(error) or type(error).__name__
    if isinstance(error, REFUSING) or any(code in text for code in REFUSING_CODES):
        return Misconfigured(f"{where} refuses us: {text}. Check the user, the password and the ACL in the URL")
    if isinstance(error, exceptions.OutOfMemoryError) or text.startswith("OOM"):
        return Denied(
            f"{where} is out of memory: {text} It accepts no new work until it is drained or given more memory"
        )
    if is_wrong_type(error):
        return WrongKeyType(f"{where} has a key of ours with another type: {text} Find it with TYPE and delete it")
    if isinstance(error, PASSING) or any(text.startswith(code) or f" {code}" in text for code in PASSING_CODES):
        return Unavailable(f"{where} does not answer: {text}")
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

"""Typed readers of environment variables. A bad value stops the program and names the variable.

Every reader takes the variable's name and a default, and returns exactly one type. An empty variable counts as unset,
so that `FOO= ./dev up` and a blank line in an env file mean the same.
"""

import math
import os
import re
from collections.abc import Callable, Sequence
from ipaddress import ip_network
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

YES = {"1", "true", "yes", "on"}
NO = {"0", "false", "no", "off"}

Number = TypeVar("Number", int, float)


class EnvError(ImproperlyConfigured):
    """A variable holds something that can't be used."""

    def __init__(self, name: str, problem: str, expected: str) -> None:
        super().__init__(f"{name} {problem}. Expected {expected}.")


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def flag(name: str, default: bool) -> bool:
    value = text(name).lower()
    if not value:
        return default
    if value in YES | NO:
        return value in YES
    raise EnvError(name, f"is {value!r}, which is neither yes nor no", "1, true, yes, on, 0, false, no or off")


def choice(name: str, default: str, allowed: Sequence[str]) -> str:
    value = text(name, default).upper()
    if value not in allowed:
        raise EnvError(name, f"is {value!r}", f"one of {', '.join(allowed)}")
    return value


def integer(name: str, default: int) -> int:
    return _number(name, default, int, "a whole number, such as 30")


def decimal(name: str, default: float) -> float:
    return _number(name, default, float, "a number, such as 2.5")


def words(name: str, default: list[str]) -> list[str]:
    """A list separated by commas or spaces."""
    return [word for word in re.split(r"[,\s]+", text(name)) if word] or default


def pairs(name: str) -> dict[str, str]:
    """`left=right,left=right`. Blanks around each are no part of it; the last `=` of a pair divides it."""
    found: dict[str, str] = {}
    for word in filter(None, (word.strip() for word in text(name).split(","))):
        left, equals, right = (part.strip() for part in word.rpartition("="))
        if not (left and equals and right):
            raise EnvError(name, f"holds {word!r}, which is no pair", "pairs such as gpu-ops=operator,staff=viewer")
        if found.setdefault(left, right) != right:
            raise EnvError(name, f"holds {left!r} twice", "each name once")
    return found


def networks(name: str, default: list[str] | None = None) -> list[str]:
    """Networks in CIDR notation, or single addresses."""
    found = words(name, default or [])
    for word in found:
        try:
            ip_network(word)
        except ValueError as error:
            raise EnvError(name, f"holds {word!r}: {error}", "networks such as 10.0.0.0/8, 192.168.1.7") from None
    return found


MIN_TOKEN = 16


def secret(name: str) -> str:
    """A token that a program presents. One that can be guessed is refused, and never shown."""
    value = text(name)
    if value and (len(value) < MIN_TOKEN or len(set(value)) < 5):
        raise EnvError(name, "is too easy to guess", f"at least {MIN_TOKEN} random characters")
    return value


def address(name: str) -> str:
    """ADDRESS:PORT of a port to open; empty for none."""
    value = text(name)
    found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\s:/]*):(\d{1,5})", value)
    if value and (not found or int(found[2]) > 65_535):
        raise EnvError(name, f"is {value!r}", "an address and a port, such as 127.0.0.1:9433")
    return value


def redis_url(name: str, default: str = "") -> str:
    """The address of one server, over TCP, TLS or a Unix socket, or of Sentinels that know it."""
    value = text(name, default)
    scheme = urlsplit(value).scheme
    if value and scheme not in {"redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel"}:
        raise EnvError(
            name, _not_an_address(scheme), "redis://[:password@]host:port/0, rediss://… or redis+sentinel://…"
        )
    return value


def database(name: str) -> dict[str, Any]:
    """Django's DATABASES entry for a postgres:// address, or its dummy backend when there is none."""
    value = text(name)
    if not value:
        return {"ENGINE": "django.db.backends.dummy"}
    parts = urlsplit(value)
    if parts.scheme not in {"postgres", "postgresql"} or not parts.path.strip("/"):
        raise EnvError(name, _not_an_address(parts.scheme), "postgres://user:password@host:port/database")
    try:
        port = parts.port
    except ValueError:
        raise EnvError(name, "has a port that is not a number", "a port from 1 to 65535") from None
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.strip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(port or ""),
        "OPTIONS": dict(parse_qsl(parts.query)),
        "CONN_HEALTH_CHECKS": True,  # after a restart of Postgres no request gets a dead connection
    }


def _number(name: str, default: Number, read: Callable[[str], Number], expected: str) -> Number:
    value = text(name)
    if not value:
        return default
    try:
        number = read(value)
    except ValueError:
        raise EnvError(name, f"is {value!r}", expected) from None
    if not math.isfinite(number):
        raise EnvError(name, f"is {value!r}", expected)
    return number


def _not_an_address(scheme: str) -> str:
    # The value itself is never shown: it holds a password.
    return f"starts with {scheme!r}" if scheme else "is not an address"

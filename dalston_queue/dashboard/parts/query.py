"""What a page's address asks for: words and times from its query string, checked. The socket gets the same string."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from urllib.parse import urlencode
from uuid import UUID

from django.http import QueryDict

LONGEST = 200


class BadQuery(ValueError):
    """Names the field and what is wrong with it, for whoever typed it."""


def word(query: Mapping[str, str], name: str) -> str | None:
    """None if it is not given; Postgres holds no U+0000, so nothing can match it."""
    text = query.get(name, "").strip()
    if "\x00" in text or len(text) > LONGEST:
        raise BadQuery(f"{name} is at most {LONGEST} characters of text.")
    return text or None


def moment(query: Mapping[str, str], name: str) -> datetime | None:
    """A time as in ISO 8601; without a zone it is UTC."""
    text = word(query, name)
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise BadQuery(f"{name} is no time: write 2026-11-16 or 2026-11-16T09:30 (UTC).") from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def number(query: Mapping[str, str], name: str) -> int | None:
    text = word(query, name)
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 18:  # a bigint
        raise BadQuery(f"{name} is a number.")
    return int(text)


def uuid(query: Mapping[str, str], name: str) -> UUID | None:
    text = word(query, name)
    try:
        return UUID(text) if text else None
    except ValueError:
        raise BadQuery(f"{name} is no id.") from None


def flat(query: QueryDict | str) -> dict[str, str]:
    """The last value of each name, whether it comes from a request or as a socket's query string."""
    given = QueryDict(query) if isinstance(query, str) else query
    return {name: str(given[name]) for name in sorted(given)}


def asked(query_string: bytes, fields: Iterable[str]) -> dict[str, str]:
    """Of a socket's address only what its page knows: any other name would make a hub of its own, with its reading."""
    given = flat(query_string.decode("latin-1"))
    return {name: given[name] for name in fields if given.get(name)}


def address(query: Mapping[str, str], **changed: object) -> str:
    """`?…` with these fields changed; one that is None or empty goes."""
    merged = {**query, **{name: "" if value is None else str(value) for name, value in changed.items()}}
    return "?" + urlencode({name: value for name, value in merged.items() if value})

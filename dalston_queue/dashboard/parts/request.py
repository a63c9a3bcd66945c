"""Requests: query strings (the socket gets the same as its page) and forms, checked; URLs of our own pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponseRedirect, QueryDict
from django.urls import NoReverseMatch, reverse
from django.utils.http import url_has_allowed_host_and_scheme

from dalston_queue.database import storable_text

MAX_CHARACTERS = 200


class BadQuery(ValueError):
    """Names the field and what is wrong with it, for the operator."""


def word(query: Mapping[str, str], name: str) -> str | None:
    """None if it is absent. Postgres holds no U+0000, so nothing can match one."""
    text = query.get(name, "").strip()
    if "\x00" in text or len(text) > MAX_CHARACTERS:
        raise BadQuery(f"{name} is at most {MAX_CHARACTERS} characters of text.")
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
    """The last value of each name, of a request or of a WebSocket's query string."""
    fields = QueryDict(query) if isinstance(query, str) else query
    return {name: str(fields[name]) for name in sorted(fields)}


def known_fields(query: QueryDict | str, fields: Iterable[str]) -> dict[str, str]:
    """The fields that the page knows: any other name would make a poll of its own."""
    found = flat(query)
    return {name: found[name] for name in fields if found.get(name)}


def address(query: Mapping[str, str], **changed: object) -> str:
    """`?…` with these fields changed, without those that are None or empty."""
    merged = {**query, **{name: "" if value is None else str(value) for name, value in changed.items()}}
    return "?" + urlencode({name: value for name, value in merged.items() if value})


MAX_REASON = 500


def reason_of(request: HttpRequest) -> str:
    """The reason of the form; empty if none was sent."""
    return cleaned(request.POST.get("reason", ""))


def cleaned(text: str) -> str:
    """The text of a field as it is stored."""
    return storable_text(text).strip()[:MAX_REASON]


def back_to_page(request: HttpRequest, below: str, otherwise: str) -> HttpResponseRedirect:
    """Follows `next` of the form if it is a path of ours `below` this one. Django's `redirect` would resolve names of
    views, too."""
    wanted = request.POST.get("next", "")
    safe = wanted.startswith(below) and url_has_allowed_host_and_scheme(wanted, allowed_hosts=None)
    return HttpResponseRedirect(wanted if safe else otherwise)


def page_url(page: str, *names: str) -> str:
    """Empty if there is no such page: an engine may report any text as its node, and "3 dead letters" have no page."""
    try:
        return reverse(f"dashboard:{page}", args=names)
    except NoReverseMatch:
        return ""

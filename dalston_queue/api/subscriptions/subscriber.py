"""Who follows a job, and whether they still may: a stream must not outlive the token or the login that opened it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.http import HttpRequest

from dalston_queue.api.auth.principal import principal_of
from dalston_queue.models import ApiToken


@dataclass(frozen=True, slots=True)
class Guest:
    """A token with its scopes, or a login with its password's hash: if one of them changes, the guest asks anew."""

    token_id: UUID | None = None
    scopes: frozenset[str] = frozenset()
    session_key: str | None = None
    user_id: int | None = None
    password: str = ""


def guest_of(request: HttpRequest) -> Guest:
    principal = principal_of(request)
    if principal.token is not None:
        return Guest(token_id=principal.token.pk, scopes=frozenset(principal.token.scopes))
    user = principal.user
    assert user is not None  # noqa: S101 - a principal is a token or a person
    return Guest(session_key=request.session.session_key, user_id=user.pk, password=user.password)


def still_allowed(guests: Collection[Guest], now: datetime) -> set[Guest]:
    """Those whose token is valid with the same scopes, or whose login lasts. Three queries at most, for any number."""
    bearers = [guest for guest in guests if guest.token_id is not None]
    logins = [guest for guest in guests if guest.token_id is None]
    tokens = ApiToken.objects.filter(pk__in={guest.token_id for guest in bearers})
    # One token may have several guests: those from before and from after a change of its scopes.
    valid = {(token.pk, frozenset(token.scopes)) for token in tokens if token.is_valid(now)}
    allowed = {guest for guest in bearers if (guest.token_id, guest.scopes) in valid}
    if logins:
        sessions = Session.objects.filter(session_key__in=[it.session_key for it in logins], expire_date__gt=now)
        keys = set(sessions.values_list("session_key", flat=True))
        users = get_user_model().objects.filter(pk__in=[it.user_id for it in logins], is_active=True)
        people = set(users.values_list("pk", "password"))
        allowed |= {it for it in logins if it.session_key in keys and (it.user_id, it.password) in people}
    return allowed

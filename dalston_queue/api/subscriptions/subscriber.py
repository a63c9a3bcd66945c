"""Subscribers of job events: a stream must not outlive the token or the login that opened it."""

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
class Subscriber:
    """A token with its scopes, or a login with its password's hash: a change of either ends the subscription."""

    token_id: UUID | None = None
    scopes: frozenset[str] = frozenset()
    session_key: str | None = None
    user_id: int | None = None
    password: str = ""
    holder: str = ""  # whose share of the streams it takes


def subscriber_of(request: HttpRequest) -> Subscriber:
    principal = principal_of(request)
    if principal.token is not None:
        return Subscriber(
            token_id=principal.token.pk, scopes=frozenset(principal.token.scopes), holder=principal.holder
        )
    user = principal.user
    assert user is not None  # noqa: S101 - a principal is a token or a person
    return Subscriber(
        session_key=request.session.session_key, user_id=user.pk, password=user.password, holder=principal.holder
    )


def still_allowed(subscribers: Collection[Subscriber], now: datetime) -> set[Subscriber]:
    """Those with a valid token and the same scopes, or a valid login. At most three queries, for any number."""
    bearers = [it for it in subscribers if it.token_id is not None]
    logins = [it for it in subscribers if it.token_id is None]
    tokens = ApiToken.objects.filter(pk__in={it.token_id for it in bearers})
    # One token may have several subscribers: from before and from after a change of its scopes.
    valid = {(token.pk, frozenset(token.scopes)) for token in tokens if token.is_valid(now)}
    allowed = {it for it in bearers if (it.token_id, it.scopes) in valid}
    if logins:
        sessions = Session.objects.filter(session_key__in=[it.session_key for it in logins], expire_date__gt=now)
        keys = set(sessions.values_list("session_key", flat=True))
        users = get_user_model().objects.filter(pk__in=[it.user_id for it in logins], is_active=True)
        passwords = set(users.values_list("pk", "password"))
        allowed |= {it for it in logins if it.session_key in keys and (it.user_id, it.password) in passwords}
    return allowed

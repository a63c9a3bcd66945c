"""Authentication and scopes. A route names the scopes that open it, any one of them; without scopes it is closed.

Two kinds of credentials, in this order: `Authorization: Bearer dal_…`, or the session cookie of a login, then with
Django's CSRF check. An invalid bearer header is refused: it never falls back to the session.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db import connection
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone
from ninja.security import APIKeyCookie, HttpBearer
from ninja.utils import check_csrf

from dalston_queue.api.auth.principal import Principal
from dalston_queue.api.errors.problems import ApiProblem, Code
from dalston_queue.broker.broker import Limit
from dalston_queue.broker.errors import BrokerError
from dalston_queue.health import outages
from dalston_queue.jobs.queries.search import reader
from dalston_queue.models import ApiToken, Project
from dalston_queue.models.accounts import RatePreset, Scope, digest_of
from dalston_queue.redis import get_broker

log = structlog.get_logger(__name__)

CHALLENGE = {"WWW-Authenticate": 'Bearer realm="dalston"'}
LAST_USED_EVERY = timedelta(minutes=1)
"""Precision of `last_used_at`."""


class Token(HttpBearer):
    """A token made with `manage.py token create`."""

    def __init__(self, *scopes: Scope) -> None:
        super().__init__()
        self.scopes = scopes

    def __call__(self, request: HttpRequest) -> Principal | None:
        header = request.headers.get("Authorization")
        if header is None:
            return None
        kind, _, text = header.partition(" ")
        if kind.lower() != "bearer" or not text.strip():
            raise _refused(Code.TOKEN_INVALID, "Send the token as `Authorization: Bearer dal_…`.")
        return self.authenticate(request, text.strip())

    def authenticate(self, request: HttpRequest, token: str) -> Principal:
        row = _find(digest_of(token))
        if row is None:
            raise _refused(Code.TOKEN_INVALID, "This token does not exist.")
        now = timezone.now()
        _check_valid(row, now)
        check_rate(row)
        if row.last_used_at is None or row.last_used_at <= now - LAST_USED_EVERY:
            _note_use(row, now)
        return _allow(Principal.of_token(row), self.scopes)


class Session(APIKeyCookie):
    """The session cookie of a login; writes need the CSRF token as well."""

    param_name = settings.SESSION_COOKIE_NAME

    def __init__(self, *scopes: Scope) -> None:
        super().__init__()
        self.scopes = scopes

    def _get_key(self, request: HttpRequest) -> str | None:
        return request.COOKIES.get(self.param_name)

    def authenticate(self, request: HttpRequest, key: str | None) -> Principal | None:
        if not key or not request.user.is_authenticated:
            return None
        if check_csrf(request):
            raise ApiProblem(403, Code.CSRF_FAILED, "Send the CSRF token of your session in the X-CSRFToken header.")
        return _allow(Principal.of_user(request.user), self.scopes)


def needs(*scopes: Scope) -> list[Callable[[HttpRequest], Any]]:
    """Open to each principal that has one of these scopes."""
    return [Token(*scopes), Session(*scopes)]


def sees_all_projects() -> list[Callable[[HttpRequest], Any]]:
    """For reads that belong to no single project: a token needs `operate`; every login sees them on the pages."""
    return [Token(Scope.OPERATE), Session(Scope.READ)]


CLOSED = needs()
"""The default of every route: a route that names no scope is a mistake."""


# Runs for every request. Raw SQL: the ORM takes four times as long to build the statement as Postgres to answer it.
_FIELDS = ["id", "project_id", "name", "scopes", "rate_preset", "expires_at", "last_used_at", "revoked_at"]
_FIND = f"""
    SELECT {", ".join(f"t.{name}" for name in _FIELDS)}, p.name, p.stored_bytes
    FROM dalston_api_token t JOIN dalston_project p ON p.id = t.project_id
    WHERE t.digest = %s"""  # noqa: S608


def _find(digest: str) -> ApiToken | None:
    with connection.cursor() as cursor:
        cursor.execute(_FIND, [digest])
        row = cursor.fetchone()
    if row is None:
        return None
    *values, project_name, stored_bytes = row
    token = ApiToken.from_db("default", _FIELDS, values)
    token.project = Project(id=token.project_id, name=project_name, stored_bytes=stored_bytes)
    return token


def check_still_valid(token: ApiToken) -> None:
    """For a request that has waited: raises ApiProblem if its token was revoked or expired meanwhile."""
    row = ApiToken.objects.filter(pk=token.pk).first()
    if row is None:
        raise _refused(Code.TOKEN_INVALID, "This token does not exist any more.")
    _check_valid(row, timezone.now())


def _check_valid(token: ApiToken, now: datetime) -> None:
    if token.revoked_at is not None:
        raise _refused(Code.TOKEN_REVOKED, f"This token was revoked at {token.revoked_at.isoformat()}.")
    if token.expires_at is not None and token.expires_at <= now:
        raise _refused(Code.TOKEN_EXPIRED, f"This token expired at {token.expires_at.isoformat()}.")


def _allow(principal: Principal, scopes: tuple[Scope, ...]) -> Principal:
    if not scopes:
        raise ApiProblem(403, Code.ROUTE_CLOSED, "This route names no scope, so no token and no login opens it.")
    if principal.scopes.isdisjoint(scopes):
        wanted = " or ".join(f"`{scope}`" for scope in scopes)
        detail = f"This needs the scope {wanted}, which {principal.name} does not have."
        raise ApiProblem(403, Code.SCOPE_MISSING, detail)
    reader.set(principal.holder)
    return principal


def _note_use(token: ApiToken, now: datetime) -> None:
    """At most one write a minute and token, whatever the load; the WHERE settles the race between web processes."""
    unused = Q(last_used_at__isnull=True) | Q(last_used_at__lte=now - LAST_USED_EVERY)
    ApiToken.objects.filter(unused, pk=token.pk).update(last_used_at=now)


def _refused(code: Code, detail: str) -> ApiProblem:
    return ApiProblem(401, code, detail, headers=CHALLENGE)


def check_rate(token: ApiToken) -> None:
    if token.rate_preset != RatePreset.LIMITED:
        return
    limits = [Limit(settings.DALSTON_RATE_LIMITED_PER_MINUTE, 60), Limit(settings.DALSTON_RATE_LIMITED_PER_HOUR, 3600)]
    try:
        wait = get_broker().take_rate(str(token.pk), limits)
    except BrokerError as error:
        # Submissions are accepted while Redis is down; counting them is not worth refusing them.
        if not outages.report(error):
            log.warning("api.rate_not_counted", error=str(error))
        return
    if wait > 0:
        seconds = math.ceil(wait)
        words = " and ".join(f"{limit.count} in {limit.window_s} s" for limit in limits)
        detail = f"This token may call {words}. Try again in {seconds} s."
        raise ApiProblem(429, Code.RATE_LIMITED, detail, headers={"Retry-After": str(seconds)})

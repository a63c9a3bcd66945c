"""The page of API tokens: every role makes and revokes tokens, none that reaches further than the role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from dalston_queue.accounts import tokens as accounts
from dalston_queue.accounts.roles import person
from dalston_queue.dashboard.parts.request import BadQuery, cleaned, flat, known_fields, uuid
from dalston_queue.dashboard.security.roles import page_view
from dalston_queue.dashboard.tokens.read import lines
from dalston_queue.models import ApiToken, Project
from dalston_queue.models.accounts import RatePreset, Scope

FIELDS = ("revoke",)
"""The token whose form is shown."""
LIFETIMES = {"7": "7 days", "30": "30 days", "90": "90 days", "365": "a year", "never": "never"}
USUAL_LIFETIME = "90"
OFFERED = 200
"""Projects to choose from; the name of any other one can be typed."""
MEANINGS = {
    Scope.SUBMIT: "submit tasks and jobs, and cancel them",
    Scope.READ: "read tasks and jobs of the project",
    Scope.OPERATE: "do what the buttons of these pages do; with read, in all projects",
    Scope.WORKER: "run tasks of all projects as a worker over HTTP",
}


class Refused(ValueError):
    """What is wrong with the form, for its user."""


@dataclass(frozen=True, slots=True)
class Wanted:
    project: Project
    name: str
    scopes: list[Scope]
    expires_at: datetime | None
    rate_preset: str


@page_view
def tokens(request: HttpRequest) -> HttpResponse:
    return _page(request, known_fields(request.GET, FIELDS))


@require_POST
@never_cache
@login_required
def create(request: HttpRequest) -> HttpResponse:
    """Answers with the page itself: a redirect would have to keep the text somewhere until the next page."""
    form = {**flat(request.POST), "scopes": request.POST.getlist("scope")}
    try:
        wanted = _wanted(request, form)
    except Refused as error:
        return _page(request, {}, problem=f"No token was made. {error}", form=form)
    token, text = accounts.issue(
        wanted.project,
        wanted.name,
        wanted.scopes,
        expires_at=wanted.expires_at,
        rate_preset=wanted.rate_preset,
        **person(request),
    )
    return _page(request, {}, issued=token, text=text)


@require_POST
@login_required
def revoke(request: HttpRequest, token_id: UUID) -> HttpResponse:
    found = accounts.manageable(request.user).filter(pk=token_id)
    token = found.first()
    if token is None:
        raise Http404
    if accounts.revoke(found, **person(request)):
        messages.success(request, f"Revoked: {token.name}. It is refused from now on.")
    else:
        messages.warning(request, f"Nothing was changed: {token.name} was revoked before.")
    return redirect("dashboard:tokens")


def _wanted(request: HttpRequest, form: Mapping[str, Any]) -> Wanted:
    name, project = cleaned(form.get("name", "")), Project.objects.filter(name=cleaned(form.get("project", ""))).first()
    if not name or len(name) > 120:
        raise Refused("Name: write what it is for, in at most 120 characters.")
    if project is None:
        raise Refused("Project: there is none of this name; an admin makes projects.")
    allowed, scopes = accounts.grantable(request.user), form["scopes"]
    if not scopes:
        raise Refused("Scopes: choose at least one.")
    if refused := [scope for scope in scopes if scope not in allowed]:
        raise Refused(f"Scopes: your role may not give {', '.join(map(cleaned, refused))} to a token.")
    lifetime = form.get("expires", "")
    if lifetime not in LIFETIMES:
        raise Refused("Expires: choose one of the times.")
    rate = form.get("rate", accounts.preset(settings.DALSTON_TOKEN_RATE_PRESET))
    if rate not in ("", *RatePreset):
        raise Refused("Rate: choose one of the presets.")
    expires_at = None if lifetime == "never" else timezone.now() + timedelta(days=int(lifetime))
    return Wanted(project, name, [scope for scope in allowed if scope in scopes], expires_at, rate)


def _page(
    request: HttpRequest,
    query: Mapping[str, str],
    *,
    problem: str = "",
    form: Mapping[str, Any] | None = None,
    issued: ApiToken | None = None,
    text: str = "",
) -> HttpResponse:
    rows, more = lines(request.user, timezone.now())
    chosen = form["scopes"] if form else [Scope.SUBMIT, Scope.READ]
    preset = form.get("rate", "") if form else accounts.preset(settings.DALSTON_TOKEN_RATE_PRESET)
    context: dict[str, Any] = {
        "rows": rows,
        "more": more,
        "problem": problem,
        "form": form or {},
        "issued": issued,
        "text": text,
        "target": _target(request, query),
        "scopes": [(scope, MEANINGS[scope], scope in chosen) for scope in accounts.grantable(request.user)],
        "lifetimes": [
            (key, words, key == (form or {}).get("expires", USUAL_LIFETIME)) for key, words in LIFETIMES.items()
        ],
        "rates": [(rate.value, rate.meaning, rate == preset) for rate in RatePreset],
        "offered": Project.objects.order_by("name").values_list("name", flat=True)[:OFFERED],
    }
    return render(request, "dashboard/tokens/page.html", context, status=400 if problem else 200)


def _target(request: HttpRequest, query: Mapping[str, str]) -> ApiToken | None:
    try:
        found = uuid(query, "revoke")
    except BadQuery:
        return None
    rows = accounts.manageable(request.user).filter(revoked_at__isnull=True).select_related("project")
    return None if found is None else rows.filter(pk=found).first()

"""The page of limits; set and remove a limit, set a weight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from dalston_queue.accounts.roles import may_operate, person
from dalston_queue.dashboard.limits.read import read_limits
from dalston_queue.dashboard.limits.render import fragments_of
from dalston_queue.dashboard.live.fragments import by_name
from dalston_queue.dashboard.overview.read import latest
from dalston_queue.dashboard.parts.request import (
    BadQuery,
    cleaned,
    flat,
    known_fields,
    number,
    reason_of,
)
from dalston_queue.dashboard.security.roles import operator_action, page_view
from dalston_queue.jobs.errors import InvalidLimit
from dalston_queue.jobs.operator.limits import LimitScope, named_project, remove_limit, set_limit, set_weight
from dalston_queue.models import Limit, Project

FIELDS = ("limit", "project")
"""The limit or the project whose form is shown."""
OFFERED = 200
"""Projects to choose from; the name of any other one can be typed."""
LABELS = {
    "queue": "Queue",
    "project": "Project",
    "concurrency_key": "Key",
    "max_in_flight": "In flight",
    "starts_per_minute": "Starts a minute",
    "weight": "Weight",
}


@page_view
def limits(request: HttpRequest) -> HttpResponse:
    return _page(request, known_fields(request.GET, FIELDS))


@operator_action
def set_one(request: HttpRequest) -> HttpResponse:
    """The scope and the numbers are in the form, so sending it twice changes nothing more."""
    form = flat(request.POST)
    try:
        reason = _reason(request)
        scope = LimitScope(**{name: cleaned(form.get(name, "")) for name in ("queue", "project", "concurrency_key")})
        numbers = _number(form, "max_in_flight"), _number(form, "starts_per_minute")
        done = set_limit(scope, *numbers, reason=reason, **person(request))
    except InvalidLimit as error:
        return _refused(request, error, form)
    if done.changed:
        messages.success(request, f"{'Set' if done.created else 'Changed'}: {done.limit.scope}. It counts at once.")
    else:
        messages.warning(request, f"Nothing was changed: {done.limit.scope} had this limit already.")
    return redirect("dashboard:limits")


@operator_action
def remove(request: HttpRequest, limit_id: int) -> HttpResponse:
    reason = reason_of(request)
    if not reason:
        messages.error(request, "Nothing was changed: a reason is needed to remove a limit.")
        return redirect("dashboard:limits")
    removed = remove_limit(limit_id, reason=reason, **person(request))
    if removed is None:
        messages.warning(request, "Nothing was changed: it was removed already.")
    else:
        messages.success(request, f"Removed: {removed.scope}. What it held back is queued within a second.")
    return redirect("dashboard:limits")


@operator_action
def weight(request: HttpRequest) -> HttpResponse:
    form = flat(request.POST)
    try:
        reason = _reason(request)
        project = named_project(cleaned(form.get("project", "")))
        changed = set_weight(project, _number(form, "weight") or 0, reason=reason, **person(request))
    except InvalidLimit as error:
        return _refused(request, error, form)
    if changed:
        messages.success(request, f"{project.name} has weight {project.weight} now, from the next task that is queued.")
    else:
        messages.warning(request, f"Nothing was changed: {project.name} had weight {project.weight} already.")
    return redirect("dashboard:limits")


def _reason(request: HttpRequest) -> str:
    if reason := reason_of(request):
        return reason
    raise InvalidLimit("reason", "a reason is needed")


def _number(form: Mapping[str, str], name: str) -> int | None:
    try:
        return number(form, name)
    except BadQuery:
        raise InvalidLimit(name, "write a whole number, or nothing for no limit") from None


def _refused(request: HttpRequest, error: InvalidLimit, form: Mapping[str, str]) -> HttpResponse:
    """The page with the form as it was sent, and what is wrong with it."""
    problem = f"Nothing was changed. {LABELS.get(error.field, error.field.capitalize())}: {error}."
    return _page(request, {}, problem=problem, form=form)


def _page(
    request: HttpRequest, query: Mapping[str, str], *, problem: str = "", form: Mapping[str, str] | None = None
) -> HttpResponse:
    view, operates = read_limits(), may_operate(request.user)
    redis = latest.get().redis
    context: dict[str, Any] = {
        **by_name(fragments_of(view, operates)),
        "problem": problem,
        "form": form or {},
        "target": _limit(query) if operates else None,
        "project": _project(query) if operates else None,
        "queues": [] if redis is None else [stats.queue for stats in redis.snapshot.queues],
        "offered": Project.objects.order_by("name").values_list("name", flat=True)[:OFFERED] if operates else [],
    }
    return render(request, "dashboard/limits/page.html", context, status=400 if problem else 200)


def _limit(query: Mapping[str, str]) -> Limit | None:
    try:
        found = number(query, "limit")
    except BadQuery:
        return None
    return None if found is None else Limit.objects.select_related("project").filter(pk=found).first()


def _project(query: Mapping[str, str]) -> Project | None:
    return Project.objects.filter(name=cleaned(query["project"])).first() if "project" in query else None

"""Replay with changes, or of all that match: a form with a dry run, a preview, then the replay batch.

Nothing is stored between the steps: the second form has the fields of the first as hidden ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import ndiff
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from dalston_queue.accounts.roles import person
from dalston_queue.broker.protocol.types import Priority
from dalston_queue.dashboard.dead_letters.actions import UNDO_S
from dalston_queue.dashboard.dead_letters.read import FIELDS, filter_by
from dalston_queue.dashboard.dead_letters.read_one import own_parameters
from dalston_queue.dashboard.parts import words
from dalston_queue.dashboard.parts.black_box import pretty
from dalston_queue.dashboard.parts.request import MAX_REASON, BadQuery, address, cleaned, flat, number, uuid
from dalston_queue.dashboard.security.roles import operator_required
from dalston_queue.jobs.errors import InvalidJob, NothingToReplay, SearchTooWide, sentence
from dalston_queue.jobs.operator.replay import TOO_WIDE_HINT, Changes, Filter, matching
from dalston_queue.jobs.operator.replay_batches import MAX_DEAD_LETTERS, MAX_RATE, MAX_UNDO_S, create_replay_batch
from dalston_queue.jobs.queries.search import bounded
from dalston_queue.models import DeadLetter
from dalston_queue.models.dead_letter import OPEN

EXAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The form, checked."""

    wanted: Filter | list[UUID]
    reason: str = ""
    priority: Priority | None = None
    rate: int | None = None
    undo_s: int = UNDO_S
    parameters: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class DiffLine:
    kind: str  # "+", "-" or " "
    text: str


@require_http_methods(["GET", "POST"])
@never_cache
@operator_required
def replay_many(request: HttpRequest) -> HttpResponse:
    """GET: the form, and how many match now. POST `check`: what would change. POST `replay`: makes the replay batch."""
    query = flat(request.GET)
    form = flat(request.POST) if request.method == "POST" else {}
    try:
        plan = plan_of(query, form)
        Changes.of(plan.parameters, plan.priority)  # refused before the preview
        found = count(plan.wanted)
        if "replay" in form and found:
            return _batch(request, plan)
    except (BadQuery, InvalidJob, NothingToReplay, SearchTooWide) as error:
        context = {**_context(query, form), "problem": f"{error}"}
        return render(request, "dashboard/dead_letters/replay.html", context, status=400)
    checked = _checked(plan) if "check" in form else None
    context = {**_context(query, form), "count": found, "plan": plan, "checked": checked}
    return render(request, "dashboard/dead_letters/replay.html", context)


def plan_of(query: Mapping[str, str], form: Mapping[str, str]) -> Plan:
    """Raises BadQuery."""
    one = uuid(query, "id")
    undo_s = number(form, "undo_seconds")
    undo_s = UNDO_S if undo_s is None else undo_s
    if undo_s > MAX_UNDO_S:
        raise BadQuery(f"The time to undo it is at most {MAX_UNDO_S:.0f} s.")
    rate = number(form, "rate")
    if rate is not None and not 1 <= rate <= MAX_RATE:
        raise BadQuery(f"The rate is between 1 and {MAX_RATE} dead letters a minute.")
    priority = form.get("priority", "")
    if priority not in ("", *Priority):
        raise BadQuery("There is no such priority.")
    return Plan(
        wanted=[one] if one else filter_by(query),
        reason=cleaned(form.get("reason", "")),
        priority=Priority(priority) if priority else None,
        rate=rate,
        undo_s=undo_s,
        parameters=_parameters(form.get("parameters", ""), one),
    )


def count(wanted: Filter | list[UUID]) -> int:
    """The dry run: how many dead letters the batch would name now. Raises BadQuery if that takes too long."""
    if not isinstance(wanted, Filter):
        return DeadLetter.objects.filter(OPEN, id__in=wanted, task__isnull=False).count()
    try:
        return bounded(matching(wanted).count, TOO_WIDE_HINT)
    except SearchTooWide as error:
        raise BadQuery(sentence(error)) from None


def diff(old: Any, new: Any) -> tuple[DiffLine, ...]:
    lines = ndiff(_sorted(old).splitlines(), _sorted(new).splitlines())
    return tuple(DiffLine(line[0], line[2:]) for line in lines if not line.startswith("?"))


def _parameters(text: str, one: UUID | None) -> dict[str, Any] | None:
    """None if the parameters are unchanged: the field is empty, or has the dead letter's own parameters."""
    if not text.strip():
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadQuery(f"The parameters are no JSON that can be stored: {error}.") from None
    if not isinstance(value, dict):
        raise BadQuery("The parameters are a JSON object, for instance {}.")
    return None if one and own_parameters([one]).get(one) == value else value


def _batch(request: HttpRequest, plan: Plan) -> HttpResponse:
    batch = create_replay_batch(
        plan.wanted,
        **person(request),
        reason=plan.reason,
        parameters=plan.parameters,
        priority=plan.priority,
        rate_per_minute=plan.rate,
        undo_seconds=plan.undo_s,
    )
    if batch.already_open:
        who = "You were" if batch.actor == person(request)["actor"] else f"{batch.actor} was"
        messages.warning(request, f"{who} faster: this replay batch exists already. No second one was made.")
        return redirect("dashboard:dead-letters")
    when = f"in {plan.undo_s} s. Until then you can undo it." if plan.undo_s else "now."
    messages.info(request, f"{words.count(batch.matched, 'dead letter')} will be replayed {when}")
    return redirect("dashboard:dead-letters")


def _checked(plan: Plan) -> list[tuple[UUID, tuple[DiffLine, ...]]]:
    """What the new parameters change, shown on the first dead letters."""
    if plan.parameters is None:
        return []
    wanted = plan.wanted
    ids = list(matching(wanted).values_list("id", flat=True)[:EXAMPLES]) if isinstance(wanted, Filter) else wanted
    return [(dead_letter, diff(own, plan.parameters)) for dead_letter, own in own_parameters(ids).items()]


def _context(query: Mapping[str, str], form: Mapping[str, str]) -> dict[str, Any]:
    kept = {name: value for name, value in query.items() if name in FIELDS and value}
    one, own = _one(query), ""
    if one is not None and "parameters" not in form:
        own = _own_text(one)
    back = reverse("dashboard:dead-letters") + address(kept)
    return {
        "filter": kept,
        "form": {"undo_seconds": str(UNDO_S), "parameters": own, **form},
        "one": query.get("id", ""),
        "here": address(query),
        "back": back if one is None else reverse("dashboard:dead-letter", args=[one]),
        "priorities": [priority.value for priority in Priority],
        "max_dead_letters": MAX_DEAD_LETTERS,
        "max_reason": MAX_REASON,
        "max_rate": MAX_RATE,
        "max_undo": int(MAX_UNDO_S),
    }


def _own_text(dead_letter: UUID) -> str:
    own = own_parameters([dead_letter])
    return pretty(own[dead_letter]) if dead_letter in own else ""


def _one(query: Mapping[str, str]) -> UUID | None:
    """The dead letter that the query string names, if it names one."""
    try:
        return uuid(query, "id")
    except BadQuery:
        return None


def _sorted(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)

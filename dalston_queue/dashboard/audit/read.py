"""The audit trail as plain values: a page of the actions that match, what each changed, and where the next begins."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone

from dalston_queue.audit.trail import Wanted, actions
from dalston_queue.dashboard.parts.request import moment, number, page_url, word
from dalston_queue.models import OperatorAction

SHOWN = 50
FIELDS = ("actor", "action", "target", "since", "until", "unfinished", "before")
MAX_OFFERED = 2_000
"""The filter offers the names in the newest actions: a list of all there ever were would read the whole trail."""
_PAGES = {
    "job": "job",
    "task": "task",
    "dead_letter": "dead-letter",
    "node": "node",
    "engine": "node",
    "stage": "queue",
}
_OF_ORDERS = {"dead_letter.replay_batch"}
"""Their target is the order, which has no page of its own."""


@dataclass(frozen=True, slots=True)
class ActionLine:
    id: int
    at: datetime
    finished: bool
    actor: str
    action: str
    target: str
    link: str  # the page of what it was done to; empty if it has none
    reason: str
    changes: tuple[Changed, ...]


@dataclass(frozen=True, slots=True)
class AuditView:
    at: datetime
    actions: tuple[ActionLine, ...]
    older: int | None  # the id after which the next page begins


def wanted_by(query: Mapping[str, str]) -> Wanted:
    """Raises BadQuery."""
    return Wanted(
        actor=word(query, "actor"),
        action=word(query, "action"),
        target=word(query, "target"),
        since=moment(query, "since"),
        until=moment(query, "until"),
        unfinished=word(query, "unfinished") is not None,
    )


def read_audit(query: Mapping[str, str]) -> AuditView:
    """Raises BadQuery."""
    rows, before = actions(wanted_by(query)), number(query, "before")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    found = list(rows[: SHOWN + 1])
    more = len(found) > SHOWN
    return AuditView(
        timezone.now(), tuple(line_of(row) for row in found[:SHOWN]), found[SHOWN - 1].pk if more else None
    )


def line_of(row: OperatorAction) -> ActionLine:
    return ActionLine(
        row.pk,
        row.at,
        row.finished_at is not None,
        row.actor,
        row.action,
        row.target,
        _link(row.action, row.target),
        row.reason,
        changes(row.before, row.after),
    )


def offered() -> tuple[list[str], list[str]]:
    """Actors and actions to choose from."""
    newest = list(OperatorAction.objects.order_by("-id").values_list("actor", "action")[:MAX_OFFERED])
    return sorted({actor for actor, _ in newest}), sorted({action for _, action in newest})


def _link(action: str, target: str) -> str:
    page = "" if action in _OF_ORDERS else _PAGES.get(action.partition(".")[0], "")
    return page_url(page, target) if page else ""


MAX_CHANGES = 60
MAX_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Changed:
    place: str
    was: str | None = None  # None: it was not there, or not recorded
    now: str | None = None

    @property
    def same(self) -> bool:
        return self.was == self.now


def changes(before: Any, after: Any) -> tuple[Changed, ...]:
    """Line by line; what only one side has stands alone on it. The rest of a long one is summed up."""
    was, now = dict(_leaves(before)), dict(_leaves(after))
    lines = [Changed(place or "value", was.get(place), now.get(place)) for place in dict.fromkeys([*was, *now])]
    if len(lines) <= MAX_CHANGES:
        return tuple(lines)
    return (*lines[:MAX_CHANGES], Changed(f"… and {len(lines) - MAX_CHANGES} more, all in the export"))


def _leaves(value: Any, place: str = "") -> list[tuple[str, str]]:
    if value is None and not place:
        return []
    if isinstance(value, dict) and value:
        return [leaf for name, inner in value.items() for leaf in _leaves(inner, f"{place}.{name}" if place else name)]
    return [(place, _words(value))]


def _words(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "none" if value is None else "empty"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}… ({len(text)} characters)"

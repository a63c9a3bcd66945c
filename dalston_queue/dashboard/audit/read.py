"""What the audit page reads, as plain values: a page of the actions that match, and what each changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone

from dalston_queue.audit.trail import ActionFilter, actions
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
_WITHOUT_PAGE = {"dead_letter.replay_batch"}
"""Their target is a replay batch, which has no page."""


@dataclass(frozen=True, slots=True)
class ActionLine:
    id: int
    at: datetime
    finished: bool
    actor: str
    action: str
    target: str
    link: str  # the page of the target; empty if it has none
    reason: str
    changes: tuple[Changed, ...]


@dataclass(frozen=True, slots=True)
class AuditView:
    at: datetime
    actions: tuple[ActionLine, ...]
    older: int | None  # the id after which the next page begins


def wanted_by(query: Mapping[str, str]) -> ActionFilter:
    """Raises BadQuery."""
    return ActionFilter(
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
    page = "" if action in _WITHOUT_PAGE else _PAGES.get(action.partition(".")[0], "")
    return page_url(page, target) if page else ""


MAX_CHANGES = 60
MAX_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Changed:
    field: str
    was: str | None = None  # None: absent, or not recorded
    now: str | None = None

    @property
    def same(self) -> bool:
        return self.was == self.now


def changes(before: Any, after: Any) -> tuple[Changed, ...]:
    """A line per field; a field that only one side has is None on the other. The end of a long list is a count."""
    was, now = dict(_leaves(before)), dict(_leaves(after))
    lines = [Changed(field or "value", was.get(field), now.get(field)) for field in dict.fromkeys([*was, *now])]
    if len(lines) <= MAX_CHANGES:
        return tuple(lines)
    return (*lines[:MAX_CHANGES], Changed(f"… and {len(lines) - MAX_CHANGES} more, all in the export"))


def _leaves(value: Any, field: str = "") -> list[tuple[str, str]]:
    if value is None and not field:
        return []
    if isinstance(value, dict) and value:
        return [leaf for name, inner in value.items() for leaf in _leaves(inner, f"{field}.{name}" if field else name)]
    return [(field, _words(value))]


def _words(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "none" if value is None else "empty"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}… ({len(text)} characters)"

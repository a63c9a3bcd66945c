"""What the audit page shows, as plain values: a page of the acts that match its address, and where the next begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from dalston_queue.audit.trail import Wanted, actions
from dalston_queue.dashboard.audit.diff import Changed, changes
from dalston_queue.dashboard.parts.places import place
from dalston_queue.dashboard.parts.query import moment, number, word
from dalston_queue.models import OperatorAction

SHOWN = 50
FIELDS = ("actor", "action", "target", "since", "until", "unfinished", "before")
OFFERED = 2_000
"""The filter offers the names in the newest so many acts: a list of all there ever were would read the whole trail."""
_PAGES = {
    "job": "job",
    "task": "task",
    "dead_letter": "dead-letter",
    "node": "node",
    "engine": "node",
    "stage": "stream",
}
_OF_ORDERS = {"dead_letter.replay_batch"}
"""Their target is the order, which has no page of its own."""


@dataclass(frozen=True, slots=True)
class ActLine:
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
    acts: tuple[ActLine, ...]
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


def line_of(row: OperatorAction) -> ActLine:
    return ActLine(
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
    newest = list(OperatorAction.objects.order_by("-id").values_list("actor", "action")[:OFFERED])
    return sorted({actor for actor, _ in newest}), sorted({action for _, action in newest})


def _link(action: str, target: str) -> str:
    page = "" if action in _OF_ORDERS else _PAGES.get(action.partition(".")[0], "")
    return place(page, target) if page else ""

"""Fragments of the audit page, the same for the page and its WebSocket."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from django.utils import timezone

from dalston_queue.dashboard.audit.read import ActionLine, AuditView, read_audit
from dalston_queue.dashboard.live.fragments import Fragment, Row, as_of, render, table
from dalston_queue.dashboard.parts.request import BadQuery, address

NO_ACTION = "No action matches. Every operator action on a page, over the API or from a shell appears here at once."


def audit_fragments(query: Mapping[str, str]) -> list[Fragment]:
    try:
        view = read_audit(query)
    except BadQuery:  # the page says what is wrong; its WebSocket only keeps it alive
        view = AuditView(timezone.now(), (), None)
    return fragments_of(view, query)


def fragments_of(view: AuditView, query: Mapping[str, str]) -> list[Fragment]:
    older = address(query, before=view.older) if view.older else ""
    newest = address(query, before=None) if "before" in query else ""
    return [
        as_of(view.at),
        table("actions", [action_row(action) for action in view.actions], columns=4, empty=NO_ACTION),
        Fragment("older", render("_older", older=older, newest=newest)),
    ]


def trail_table(actions: tuple[ActionLine, ...]) -> Fragment:
    """The trail of one target, for its own page."""
    return table("trail", [action_row(action) for action in actions], columns=4, empty="No operator action yet.")


@lru_cache(maxsize=1024)
def action_row(action: ActionLine) -> Row:
    row_id = f"action-{action.id}"
    return Row(row_id, render("audit/_action", row_id=row_id, action=action))

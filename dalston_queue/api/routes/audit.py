"""/audit: operator actions, as on the audit page. For operators: reasons and parameters are of all projects."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from dalston_queue.api.auth.bearer import sees_all_projects
from dalston_queue.api.errors.problems import answers
from dalston_queue.api.schemas.base import Instant, Limit, Text
from dalston_queue.audit.trail import ActionFilter, actions
from dalston_queue.models import OperatorAction

router = Router(tags=["audit"])


class LinkOut(Schema):
    position: int
    fact: str = Field(description="`begun` or `finished`.")
    hash: str


class ActionOut(Schema):
    id: int
    at: datetime
    finished_at: datetime | None = Field(description="Null: the action is running, or its process died in the middle.")
    actor: str
    action: str
    target: str
    reason: str
    before: Any = None
    after: Any = None
    links: list[LinkOut] = Field(description="Entries in the hash chain that `manage.py verify_audit` checks.")


class AuditPage(Schema):
    items: list[ActionOut]
    next_cursor: int | None = Field(description="Null on the last page.")


@router.get("/audit", auth=sees_all_projects(), response=answers({200: AuditPage}))
def list_actions(  # a filter each
    request: HttpRequest,
    actor: Text = None,
    action: Text = None,
    target: Text = None,
    since: Instant | None = None,
    until: Instant | None = None,
    unfinished: bool = False,
    limit: Limit = 50,
    cursor: Annotated[int | None, Query(ge=1, le=2**63 - 1, description="`next_cursor` of the page before.")] = None,
) -> AuditPage:
    """Operator actions, newest first."""
    wanted = ActionFilter(actor=actor, action=action, target=target, since=since, until=until, unfinished=unfinished)
    rows = actions(wanted).prefetch_related("entries")
    found = list((rows if cursor is None else rows.filter(pk__lt=cursor))[: limit + 1])
    more = len(found) > limit
    return AuditPage(items=[_out(row) for row in found[:limit]], next_cursor=found[limit - 1].pk if more else None)


def _out(row: OperatorAction) -> ActionOut:
    same = {name: getattr(row, name) for name in ActionOut.model_fields if name != "links"}
    links = [LinkOut(position=entry.pk, fact=entry.fact, hash=entry.hash) for entry in row.entries.all()]
    return ActionOut(**same, links=sorted(links, key=lambda link: link.position))

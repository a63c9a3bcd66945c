"""Verifies the audit chain, and compares the rows of actions with it.

Found: a link or row that was changed, removed from the middle or added past the triggers, and a row whose links are
gone. Not found by the chain alone: its end cut off, or everything from some link on rewritten, by a user who may drop
triggers. Both are found with a head that was noted outside of the database (`Head`, which is why it is printed, logged
each hour and part of every export).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import connection, transaction

from dalston_queue.models import AuditEntry, OperatorAction
from dalston_queue.models.audit import START, Fact, hash_of

CHUNK = 1_000


@dataclass(frozen=True, slots=True)
class Head:
    """The last link. Noted elsewhere, it proves later that nothing up to it was cut off or rewritten."""

    entries: int
    hash: str

    def __str__(self) -> str:
        return f"{self.entries}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Head:
        count, _, digest = text.partition(":")
        if not count.isdecimal() or len(digest) != len(START) or set(digest) - set("0123456789abcdef"):
            raise ValueError(f"{text!r} is no head, such as 1234:5f2c… with 64 hexadecimal digits")
        return cls(int(count), digest)


@dataclass(frozen=True, slots=True)
class Verified:
    head: Head
    problem: str = ""  # of the first link or row that is wrong; empty: none
    unfinished: tuple[int, ...] = ()  # actions without an outcome: no fault of the chain


def head() -> Head:
    last = AuditEntry.objects.order_by("-id").values_list("id", "hash").first()
    return Head(*last) if last else Head(0, START)


def verify(noted: Head | None = None, *, last: int | None = None) -> Verified:
    """Verify the whole chain, or its `last` links. `noted` is an earlier head."""
    with _consistent_read():
        now = head()
        first = 1 if last is None else max(1, now.entries - last + 1)
        problem = _noted(noted, now) or _links(first, now) or _rows(first)
        unfinished = OperatorAction.objects.filter(finished_at__isnull=True).order_by("id").values_list("id", flat=True)
        return Verified(now, problem, tuple(unfinished[:CHUNK]))


@contextmanager
def _consistent_read() -> Iterator[None]:
    """Links and rows as of one moment: an action written meanwhile would be a row without a link."""
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield


def _noted(noted: Head | None, now: Head) -> str:
    if noted is None or noted.entries == 0:
        return ""
    if noted.entries > now.entries:
        return f"the chain was cut off: it ends at link {now.entries}, and {noted.entries} were noted"
    found = AuditEntry.objects.filter(pk=noted.entries).values_list("hash", flat=True).first()
    return "" if found == noted.hash else f"link {noted.entries} is not the one that was noted: the chain was rewritten"


def _links(first: int, now: Head) -> str:
    """The fault of the first bad link."""
    before = START if first == 1 else AuditEntry.objects.values_list("hash", flat=True).filter(pk=first - 1).first()
    if before is None:
        return f"link {first - 1} is missing"
    position = first
    for entry in AuditEntry.objects.filter(pk__gte=first).order_by("pk").iterator(CHUNK):
        if entry.pk != position:
            return f"link {position} is missing"
        if entry.previous_hash != before:
            return f"link {position} does not follow the one before it"
        if entry.hash != hash_of(before, position, entry.content):
            return f"link {position} (action {entry.action_id}, {entry.fact}) was changed after it was written"
        before, position = entry.hash, position + 1
    return "" if position == now.entries + 1 else f"link {position} is missing"


def _rows(first: int) -> str:
    """The first difference between a row and its links, both read by action id."""
    since = 0 if first == 1 else AuditEntry.objects.values_list("action_id", flat=True).get(pk=first)
    links, rows = _links_by_action(since), OperatorAction.objects.filter(pk__gte=since).order_by("pk").iterator(CHUNK)
    link, row = next(links, None), next(rows, None)
    while link is not None or row is not None:
        if link is None or (row is not None and row.pk < link[0]):
            return f"action {row.pk if row else 0} has no link in the chain"
        if row is None or link[0] < row.pk:
            return f"action {link[0]} was deleted: its links are there, its row is gone"
        if expected(row) != link[1]:
            return f"action {row.pk} ({row}) does not say what was written down for it"
        link, row = next(links, None), next(rows, None)
    return ""


def _links_by_action(since: int) -> Iterator[tuple[int, dict[str, Any]]]:
    rows = AuditEntry.objects.filter(action_id__gte=since).order_by("action_id", "fact")
    action_id = 0
    facts: dict[str, Any] = {}
    for entry in rows.iterator(CHUNK):
        if entry.action_id != action_id and facts:
            yield action_id, facts
            facts = {}
        action_id = entry.action_id
        facts[entry.fact] = json.loads(entry.content)
    if facts:
        yield action_id, facts


def expected(row: OperatorAction) -> dict[str, Any]:
    """The facts that the links of this row must have."""
    begun = {"action_id": row.pk, "at": _utc(row.at), "actor": row.actor, "action": row.action, "target": row.target}
    facts: dict[str, Any] = {Fact.BEGUN.value: {**begun, "reason": row.reason, "before": row.before}}
    if row.finished_at is not None:
        facts[Fact.FINISHED.value] = {"action_id": row.pk, "at": _utc(row.finished_at), "after": row.after}
    return facts


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

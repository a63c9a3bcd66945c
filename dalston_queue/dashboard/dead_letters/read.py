"""What the page of dead letters shows, as plain values: orders in progress, and groups or the letters of one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.utils import timezone

from dalston_queue.dashboard.dead_letters.query import GroupLine, LetterLine, Place, groups_of, letters_of
from dalston_queue.dashboard.parts.request import BadQuery, moment, word
from dalston_queue.jobs.operator.replay import Filter
from dalston_queue.models import ReplayBatch
from dalston_queue.models.replay_batch import LIVE

RECENT = timedelta(minutes=5)
"""How long an order that is over stays on the page: long enough to read what came of it."""
ORDERS = 10
FIELDS = ("queue", "cause", "task_type", "error", "since", "until", "fingerprint")
PAGE_FIELDS = ("each", "after")
"""Beside the filter: a list instead of groups, and where its page begins."""


@dataclass(frozen=True, slots=True)
class OrderLine:
    id: str
    actor: str
    reason: str
    state: str
    matched: int
    handled: int
    replayed: int
    already: int
    refused: int
    rate: int | None
    error: str
    ended_by: str
    changes: str  # what it changes in the tasks, in words
    starts_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class LettersView:
    at: datetime
    orders: tuple[OrderLine, ...]
    groups: tuple[GroupLine, ...] | None  # None: it shows letters
    letters: tuple[LetterLine, ...] | None  # None: it shows groups
    older: str  # what `after` is on the next page; empty on the last


def filter_by(query: Mapping[str, str]) -> Filter:
    """Raises BadQuery."""
    return Filter(
        queue=word(query, "queue"),
        cause=word(query, "cause"),
        fingerprint=word(query, "fingerprint"),
        task_type=word(query, "task_type"),
        error_contains=word(query, "error"),
        created_after=moment(query, "since"),
        created_before=moment(query, "until"),
    )


def is_list(query: Mapping[str, str]) -> bool:
    """A group's letters, or all of them one by one; otherwise groups."""
    return bool(query.get("fingerprint") or query.get("each"))


def read_letters(query: Mapping[str, str]) -> LettersView:
    """Raises BadQuery."""
    wanted, now = filter_by(query), timezone.now()
    if not is_list(query):
        return LettersView(now, read_orders(now), groups_of(wanted), None, "")
    letters, place = letters_of(wanted, _place(query))
    older = f"{place[0].astimezone(UTC).isoformat()},{place[1]}" if place else ""
    return LettersView(now, read_orders(now), None, letters, older)


def nothing() -> LettersView:
    return LettersView(timezone.now(), (), (), None, "")


def read_orders(now: datetime) -> tuple[OrderLine, ...]:
    """Those that wait or go on, and those that ended a moment ago; newest first."""
    # The letters of an order may be many, and nobody reads them here.
    rows = ReplayBatch.objects.defer("dead_letter_ids", "filter")
    live = list(rows.filter(state__in=LIVE).order_by("next_at")[:ORDERS])
    over = [row for row in rows.order_by("-id")[:ORDERS] if row.finished_at and now - row.finished_at < RECENT]
    return tuple(order_line(row) for row in sorted({*live, *over}, key=lambda row: row.id, reverse=True))


def order_line(row: ReplayBatch) -> OrderLine:
    changes = ["new parameters"] if row.parameters is not None else []
    changes += [f"{row.priority} priority"] if row.priority else []
    return OrderLine(
        str(row.id),
        row.actor,
        row.reason,
        row.state,
        row.matched,
        row.handled,
        row.replayed,
        row.already,
        row.refused,
        row.rate_per_minute,
        row.error,
        row.ended_by,
        ", ".join(changes),
        row.starts_at,
        row.finished_at,
    )


def _place(query: Mapping[str, str]) -> Place | None:
    text = word(query, "after")
    if text is None:
        return None
    at, _, letter = text.partition(",")
    try:
        return datetime.fromisoformat(at).astimezone(UTC), UUID(letter)
    except (ValueError, OverflowError):  # a time in the year 0 of UTC
        raise BadQuery("after names no place: follow the link that says Older.") from None


NEWEST = 20
LIVE_LOOKED = 200
MOST_KNOWN = 20_000

_known: dict[tuple[UUID, frozenset[UUID]], bool] = {}


def orders_of(letters: Collection[UUID]) -> list[str]:
    """The ids of orders that name one of these, among the newest."""
    newest = list(ReplayBatch.objects.order_by("-id").values_list("id", flat=True)[:NEWEST])
    return [str(order) for order in _naming(newest, letters)]


def live_order_of(letter: UUID) -> ReplayBatch | None:
    """The one that is about to take it back."""
    rows = ReplayBatch.objects.filter(state__in=LIVE).order_by("next_at")
    named = _naming(list(rows.values_list("id", flat=True)[:LIVE_LOOKED]), [letter])
    return rows.defer("dead_letter_ids", "filter").filter(id__in=named).first() if named else None


def _naming(orders: list[UUID], letters: Collection[UUID]) -> list[UUID]:
    """Those of them that name one of these letters, in their order. Pages ask for the same each tick."""
    wanted = frozenset(letters)
    if not wanted:
        return []
    found = {order: _known.get((order, wanted)) for order in orders}
    fresh = [order for order, names in found.items() if names is None]
    if fresh:
        rows = ReplayBatch.objects.filter(id__in=fresh, dead_letter_ids__overlap=list(wanted))
        naming = set(rows.values_list("id", flat=True))
        found |= {order: order in naming for order in fresh}
        if len(_known) > MOST_KNOWN:
            _known.clear()
        _known.update({(order, wanted): order in naming for order in fresh})
    return [order for order, names in found.items() if names]

"""Which replay orders name a letter. An order names up to 100 000 and never changes them: each is asked once."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from dalston_queue.models import ReplayBatch
from dalston_queue.models.replay_batch import LIVE

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
    return rows.defer("letter_ids", "filter").filter(id__in=named).first() if named else None


def _naming(orders: list[UUID], letters: Collection[UUID]) -> list[UUID]:
    """Those of them that name one of these letters, in their order. Pages ask for the same each tick."""
    wanted = frozenset(letters)
    if not wanted:
        return []
    found = {order: _known.get((order, wanted)) for order in orders}
    fresh = [order for order, names in found.items() if names is None]
    if fresh:
        rows = ReplayBatch.objects.filter(id__in=fresh, letter_ids__overlap=list(wanted))
        naming = set(rows.values_list("id", flat=True))
        found |= {order: order in naming for order in fresh}
        if len(_known) > MOST_KNOWN:
            _known.clear()
        _known.update({(order, wanted): order in naming for order in fresh})
    return [order for order, names in found.items() if names]

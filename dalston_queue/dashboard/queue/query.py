"""The query string of a queue's page: order, lane, engine, page, and the task whose actions are shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dalston_queue.broker.protocol.keys import NAME
from dalston_queue.broker.protocol.types import Tier
from dalston_queue.broker.views.pages import LaneTier, PendingOrder
from dalston_queue.dashboard.parts.request import BadQuery, number, uuid, word
from dalston_queue.jobs.queries.ready import Place, place

FIELDS = ("order", "owner", "lane", "start", "after", "waiting", "task")
"""What a link keeps. `start` is an offset in the sorted set; `after` is an entry, behind which a page of running tasks
begins; `waiting` an entry of a window with its lane, or the place of a task in Postgres."""
_ENTRY = re.compile(r"\d{1,19}-\d{1,19}")
_IN_WINDOW = re.compile(rf"(.+)\.({_ENTRY.pattern})")
_IN_POSTGRES = re.compile(r"(\w+)\.(\d{1,16})\.([0-9a-f]{32})")
MAX_START = 10_000_000


@dataclass(frozen=True, slots=True)
class WindowEntry:
    """An entry of the window of a lane and tier."""

    lane: LaneTier
    entry_id: str

    def __str__(self) -> str:
        return f"{lane_word(self.lane)}.{self.entry_id}"


@dataclass(frozen=True, slots=True)
class QueueQuery:
    order: PendingOrder = PendingOrder.DEADLINE
    owner: str = ""
    lane: LaneTier | None = None
    start: int = 0
    after: str = ""
    waiting_after: WindowEntry | Place | None = None
    task: str = ""


def queue_query(query: Mapping[str, str]) -> QueueQuery:
    """Raises BadQuery."""
    task = uuid(query, "task")
    return QueueQuery(
        order=_order(word(query, "order")),
        owner=word(query, "owner") or "",
        lane=_lane(word(query, "lane")),
        start=min(number(query, "start") or 0, MAX_START),
        after=_entry(query, "after"),
        waiting_after=_waiting(word(query, "waiting")),
        task=str(task) if task else "",
    )


def lane_word(lane: LaneTier) -> str:
    """A tier of a lane in a URL: `high`, `a100+large:medium`."""
    return f"{lane.capabilities}:{lane.tier}" if lane.capabilities else str(lane.tier)


def _order(text: str | None) -> PendingOrder:
    try:
        return PendingOrder(text or PendingOrder.DEADLINE)
    except ValueError:
        raise BadQuery("order is `deadline` or `idle`.") from None


def _lane(text: str | None) -> LaneTier | None:
    if text is None:
        return None
    capabilities, _, tier = text.rpartition(":")
    if tier not in set(Tier) or not all(NAME.fullmatch(name) for name in capabilities.split("+") if capabilities):
        raise BadQuery(f"lane is one of {', '.join(Tier)}, with capabilities before it as in `a100:high`.")
    return LaneTier(capabilities, Tier(tier))


def _waiting(text: str | None) -> WindowEntry | Place | None:
    if text is None:
        return None
    try:
        if found := _IN_POSTGRES.fullmatch(text):
            return place(*found.groups())
        if (found := _IN_WINDOW.fullmatch(text)) and (lane := _lane(found[1])):
            return WindowEntry(lane, found[2])
    except ValueError:
        pass
    raise BadQuery("waiting is an entry with its lane, as in high.1731747600000-0, or a place in Postgres.")


def _entry(query: Mapping[str, str], name: str) -> str:
    text = word(query, name) or ""
    if text and not _ENTRY.fullmatch(text):
        raise BadQuery(f"{name} is the id of an entry, as in 1731747600000-0.")
    return text

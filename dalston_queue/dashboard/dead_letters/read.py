"""What the page of dead letters reads, as plain values: live replay batches, and groups or dead letters."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.utils import timezone

from dalston_queue.dashboard.dead_letters.query import Cursor, DeadLetterLine, GroupLine, dead_letters_of, groups_of
from dalston_queue.dashboard.parts.request import BadQuery, moment, word
from dalston_queue.jobs.operator.replay import Filter
from dalston_queue.jobs.queries.dead_letters import Patterns, patterns
from dalston_queue.models import ReplayBatch
from dalston_queue.models.replay_batch import LIVE

RECENT = timedelta(minutes=5)
"""How long a finished replay batch stays on the page: long enough to read its outcome."""
SHOWN_BATCHES = 10
FIELDS = (
    "queue",
    "cause",
    "task_type",
    "error",
    "project",
    "node",
    "engine",
    "retriable",
    "since",
    "until",
    "fingerprint",
)
ALL_FIELDS = (*FIELDS, "each", "after")
"""The filter; `each`: a list instead of groups; `after`: the cursor of its page."""


@dataclass(frozen=True, slots=True)
class DeadLettersView:
    at: datetime
    batches: tuple[ReplayBatch, ...]
    patterns: Patterns | None  # None: it shows dead letters
    groups: tuple[GroupLine, ...] | None  # None: it shows dead letters
    dead_letters: tuple[DeadLetterLine, ...] | None  # None: it shows groups
    older: str  # what `after` is on the next page; empty on the last


def filter_by(query: Mapping[str, str]) -> Filter:
    """Raises BadQuery."""
    return Filter(
        queue=word(query, "queue"),
        cause=word(query, "cause"),
        fingerprint=word(query, "fingerprint"),
        task_type=word(query, "task_type"),
        error_contains=word(query, "error"),
        retriable=_yes_or_no(query, "retriable"),
        project=word(query, "project"),
        node=word(query, "node"),
        engine=word(query, "engine"),
        created_after=moment(query, "since"),
        created_before=moment(query, "until"),
    )


def _yes_or_no(query: Mapping[str, str], name: str) -> bool | None:
    text = word(query, name)
    if text not in (None, "yes", "no"):
        raise BadQuery(f"{name} is yes or no.")
    return None if text is None else text == "yes"


def is_list(query: Mapping[str, str]) -> bool:
    """The dead letters of a group, or all of them; otherwise groups."""
    return bool(query.get("fingerprint") or query.get("each"))


PATTERNS_FRESH_S = 10.0
MAX_FILTERS = 64


class RecentPatterns:
    """The patterns of the filters that were asked for last. Counting reads up to ten thousand rows, so it is done at
    most every `fresh_s` for each filter, for all viewers."""

    def __init__(self) -> None:
        self.fresh_s = PATTERNS_FRESH_S
        self._lock = threading.Lock()
        self._found: OrderedDict[Filter, tuple[float, Patterns]] = OrderedDict()

    def get(self, wanted: Filter) -> Patterns:
        """One thread counts; threads that come meanwhile wait for it."""
        with self._lock:
            at, found = self._found.get(wanted, (0.0, None))
            if found is None or time.monotonic() - at > self.fresh_s:
                found = patterns(wanted, timezone.now())
                self._found[wanted] = time.monotonic(), found
                while len(self._found) > MAX_FILTERS:
                    self._found.popitem(last=False)
            self._found.move_to_end(wanted)
            return found


recent_patterns = RecentPatterns()


def read_dead_letters(query: Mapping[str, str]) -> DeadLettersView:
    """Raises BadQuery."""
    wanted, now = filter_by(query), timezone.now()
    if not is_list(query):
        return DeadLettersView(now, read_batches(now), recent_patterns.get(wanted), groups_of(wanted), None, "")
    dead_letters, cursor = dead_letters_of(wanted, _cursor(query))
    older = f"{cursor[0].astimezone(UTC).isoformat()},{cursor[1]}" if cursor else ""
    return DeadLettersView(now, read_batches(now), None, None, dead_letters, older)


def nothing() -> DeadLettersView:
    return DeadLettersView(timezone.now(), (), None, (), None, "")


def read_batches(now: datetime) -> tuple[ReplayBatch, ...]:
    """Waiting and running replay batches, and those that ended within RECENT; newest first."""
    # The dead letters of a batch may be many, and are not shown here.
    rows = ReplayBatch.objects.defer("dead_letter_ids", "filter")
    live = list(rows.filter(state__in=LIVE).order_by("next_at")[:SHOWN_BATCHES])
    over = [row for row in rows.order_by("-id")[:SHOWN_BATCHES] if row.finished_at and now - row.finished_at < RECENT]
    return tuple(sorted({*live, *over}, key=lambda row: row.id, reverse=True))


def _cursor(query: Mapping[str, str]) -> Cursor | None:
    text = word(query, "after")
    if text is None:
        return None
    at, _, dead_letter = text.partition(",")
    try:
        return datetime.fromisoformat(at).astimezone(UTC), UUID(dead_letter)
    except (ValueError, OverflowError):  # a time in the year 0 of UTC
        raise BadQuery("after is no cursor: follow the link Older.") from None


NEWEST_BATCHES = 20
LIVE_LIMIT = 200
MAX_KNOWN = 20_000

_known: dict[tuple[UUID, frozenset[UUID]], bool] = {}


def batches_of(dead_letters: Collection[UUID]) -> list[str]:
    """The ids of replay batches that name one of these, among the newest."""
    newest = list(ReplayBatch.objects.order_by("-id").values_list("id", flat=True)[:NEWEST_BATCHES])
    return [str(batch) for batch in _naming(newest, dead_letters)]


def live_batch_of(dead_letter: UUID) -> ReplayBatch | None:
    """The replay batch that is about to replay it."""
    rows = ReplayBatch.objects.filter(state__in=LIVE).order_by("next_at")
    named = _naming(list(rows.values_list("id", flat=True)[:LIVE_LIMIT]), [dead_letter])
    return rows.defer("dead_letter_ids", "filter").filter(id__in=named).first() if named else None


def _naming(batches: list[UUID], dead_letters: Collection[UUID]) -> list[UUID]:
    """The batches that name one of these dead letters. Cached: pages ask for the same each tick."""
    wanted = frozenset(dead_letters)
    if not wanted:
        return []
    found = {batch: _known.get((batch, wanted)) for batch in batches}
    fresh = [batch for batch, names in found.items() if names is None]
    if fresh:
        rows = ReplayBatch.objects.filter(id__in=fresh, dead_letter_ids__overlap=list(wanted))
        naming = set(rows.values_list("id", flat=True))
        found |= {batch: batch in naming for batch in fresh}
        if len(_known) > MAX_KNOWN:
            _known.clear()
        _known.update({(batch, wanted): batch in naming for batch in fresh})
    return [batch for batch, names in found.items() if names]

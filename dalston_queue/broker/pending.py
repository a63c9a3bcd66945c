"""Any page of what is running, from the sorted sets: by idle time or by deadline. Never walks a PEL."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from dalston_queue.broker.record import Record


class PendingOrder(StrEnum):
    IDLE = "idle"  # longest without renewal first
    DEADLINE = "deadline"  # next deadline first; entries without one are not listed


class PendingEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Seed 000 calls it PendingTask."""

    queue: str
    task_id: str
    idle_ms: int  # since claim or last renewal
    running_ms: int  # since the claim
    overdue_ms: int  # past its deadline by this much; negative: time left; 0 without a deadline
    record: Record  # owner, attempt, deliveries, progress, cancel, deadline, entry id
    shard: int


class PendingPage(msgspec.Struct, frozen=True, kw_only=True):
    entries: list[PendingEntry]
    total: int
    at_ms: int

"""What waits in each queue, as of at most a second ago, and how fast it drains. One look serves all requests."""

from __future__ import annotations

import math
import threading
import time

import structlog

from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.protocol.types import TIERS, Priority, Tier
from dalston_queue.broker.views.snapshot import Snapshot, rates
from dalston_queue.jobs.queries.pace import seconds_for
from dalston_queue.redis import get_broker

log = structlog.get_logger(__name__)

FRESH_S = 1.0
LEAST_WAIT_S, LONGEST_WAIT_S = 5, 300


class QueueDepths:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_at = -math.inf
        self._before: Snapshot | None = None
        self._now: Snapshot | None = None

    def waiting(self, queue: str) -> int | None:
        """None if it is not known."""
        self._refresh()
        snapshot = self._now
        if snapshot is None:
            return None
        return next((stats.waiting for stats in snapshot.queues if stats.queue == queue), 0)

    def position(self, queue: str, priority: Priority) -> int | None:
        """Where a task that is put in line now stands, as of at most a second ago. None if it is not known."""
        self._refresh()
        snapshot = self._now
        if snapshot is None:
            return None
        before = TIERS[: TIERS.index(Tier(priority)) + 1]
        lanes = (lane for stats in snapshot.queues if stats.queue == queue for lane in stats.lanes)
        return 1 + sum(max(0, lane.lag) for lane in lanes if lane.tier in before)

    def seconds_until(self, queue: str, excess: int) -> int:
        """When so many more will be gone, at the pace of the last seconds."""
        before, now = self._before, self._now
        pace = rates(before, now).get(queue) if before and now else None
        wait = None if pace is None else seconds_for(excess, pace.out_per_s)
        return LEAST_WAIT_S * 6 if wait is None else min(LONGEST_WAIT_S, max(LEAST_WAIT_S, math.ceil(wait)))

    def forget(self) -> None:
        self._read_at, self._before, self._now = -math.inf, None, None

    def _refresh(self) -> None:
        if time.monotonic() - self._read_at < FRESH_S or not self._lock.acquire(blocking=False):
            return  # fresh, or somebody else is reading: what we have is good enough
        try:
            self._before, self._now = self._now, get_broker().snapshot()
        except BrokerError as error:
            log.warning("api.depth_unknown", error=str(error))
            self._before, self._now = None, None
        finally:
            self._read_at = time.monotonic()
            self._lock.release()


depths = QueueDepths()

"""Refuses submissions to a queue that is too full, in three steps, each stricter than the one before.

    waiting tasks above         accepted
    BACKPRESSURE_WAITING        high priority, or a token with the preset `listed`
    BACKPRESSURE_HIGH_ONLY      high priority
    BACKPRESSURE_LISTED_ONLY    high priority of a token with the preset `listed`

Tasks wait in Postgres, and in the windows in Redis. If Redis does not answer, only those in Postgres count; what is
submitted is stored there, and dispatched when Redis is back.

Depths and rates are read at most once a second for all requests (QueueDepths).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import structlog
from django.conf import settings
from django.db import Error

from dalston_queue.api.auth.principal import Principal
from dalston_queue.api.errors.problems import ApiProblem, Code
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.protocol.types import TIERS, Priority, Tier
from dalston_queue.broker.views.snapshot import Snapshot, rates
from dalston_queue.jobs.lifecycle.dag import queue_of
from dalston_queue.jobs.queries.lanes import read_ready, with_ready
from dalston_queue.jobs.queries.pace import seconds_for
from dalston_queue.jobs.submit.spec import JobSpec
from dalston_queue.models.accounts import RatePreset
from dalston_queue.redis import get_broker

log = structlog.get_logger(__name__)

FRESH_S = 1.0
MIN_RETRY_S, MAX_RETRY_S = 5, 300
NO_REDIS = Snapshot(at_ms=0, queues=[])


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
        """An estimate of the queue position of a task that becomes READY now, at most a second old. It knows no shares,
        limits and capabilities. None if Redis or Postgres does not answer."""
        self._refresh()
        snapshot = self._now
        if snapshot is None or not snapshot.at_ms:
            return None
        before = TIERS[: TIERS.index(Tier(priority)) + 1]
        lanes = (lane for stats in snapshot.queues if stats.queue == queue for lane in stats.lanes)
        return 1 + sum(lane.waiting for lane in lanes if lane.tier in before)

    def seconds_until(self, queue: str, excess: int) -> int:
        """Seconds until `excess` tasks have left the queue, at the rate of the last seconds."""
        before, now = self._before, self._now
        pace = rates(before, now).get(queue) if before and now else None
        wait = None if pace is None else seconds_for(excess, pace.out_per_s)
        return MIN_RETRY_S * 6 if wait is None else min(MAX_RETRY_S, max(MIN_RETRY_S, math.ceil(wait)))

    def forget(self) -> None:
        self._read_at, self._before, self._now = -math.inf, None, None

    def _refresh(self) -> None:
        if time.monotonic() - self._read_at < FRESH_S or not self._lock.acquire(blocking=False):
            return  # fresh, or another thread reads: the last snapshot is good enough
        try:
            # Rates are between two snapshots of Redis.
            self._before, self._now = self._now if self._now and self._now.at_ms else None, _read()
        except Error as error:
            log.warning("api.depth_unknown", error=str(error))
            self._before, self._now = None, None
        finally:
            self._read_at = time.monotonic()
            self._lock.release()


def _read() -> Snapshot:
    """Raises django.db.Error."""
    broker, ready = get_broker(), read_ready()
    try:
        snapshot = broker.snapshot()
    except BrokerError as error:
        log.warning("api.depth_of_postgres_only", error=str(error))
        snapshot = NO_REDIS
    return with_ready(broker, snapshot, ready)


depths = QueueDepths()


@dataclass(frozen=True, slots=True)
class Steps:
    waiting: int
    high_only: int
    listed_only: int


def is_accepted(waiting: int, priority: Priority, steps: Steps, *, listed: bool) -> bool:
    high = priority is Priority.HIGH
    if waiting > steps.listed_only:
        return high and listed
    if waiting > steps.high_only:
        return high
    return waiting <= steps.waiting or high or listed


def check_depth(spec: JobSpec, principal: Principal) -> None:
    """Raises 429 if a queue of this job is too full for it."""
    refused = next(_too_full(spec, principal), None)
    if refused is None:
        return
    queue, waiting = refused
    seconds = depths.seconds_until(queue, waiting - _steps().waiting)
    detail = f"{waiting} tasks wait in the queue {queue}: it takes no more of this priority. Try again in {seconds} s."
    raise ApiProblem(429, Code.QUEUE_FULL, detail, headers={"Retry-After": str(seconds)})


def _too_full(spec: JobSpec, principal: Principal) -> Iterator[tuple[str, int]]:
    listed = principal.token is not None and principal.token.rate_preset == RatePreset.LISTED
    for stage in spec.stages:
        waiting = depths.waiting(queue_of(stage))
        if waiting is not None and not is_accepted(waiting, stage.priority or spec.priority, _steps(), listed=listed):
            yield queue_of(stage), waiting


def _steps() -> Steps:
    return Steps(
        settings.DALSTON_BACKPRESSURE_WAITING,
        settings.DALSTON_BACKPRESSURE_HIGH_ONLY,
        settings.DALSTON_BACKPRESSURE_LISTED_ONLY,
    )

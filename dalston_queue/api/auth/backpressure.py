"""Refuses submissions of a project that has too many tasks in a queue, in three steps, each stricter than the last.

    tasks above                 accepted
    BACKPRESSURE_WAITING        high priority, or a token with the preset `listed`
    BACKPRESSURE_HIGH_ONLY      high priority
    BACKPRESSURE_LISTED_ONLY    high priority of a token with the preset `listed`

Counted are the tasks of this request and those of the project that are not over and that no engine has started, also
those that wait for other stages or for their time. Another project's tasks never refuse this one's: whose turn it is
decides the order (jobs/order/), not who came first. All queues of a project together have a limit as well.

The numbers are of Postgres, read at most once a second for all requests (QueueDepths). What this process has accepted
since is added.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

import structlog
from django.conf import settings
from django.db import Error
from django.utils import timezone

from dalston_queue.api.auth.principal import Principal
from dalston_queue.api.errors.problems import ApiProblem, Code
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.protocol.types import TIERS, Priority, Tier
from dalston_queue.broker.views.snapshot import Snapshot, rates
from dalston_queue.health import outages
from dalston_queue.jobs.lifecycle.dag import queue_of
from dalston_queue.jobs.order.depth import Waiting, waiting_by_project
from dalston_queue.jobs.queries.pace import ended_per_s, seconds_for
from dalston_queue.jobs.submit.spec import JobSpec
from dalston_queue.models.accounts import RatePreset
from dalston_queue.redis import get_broker

log = structlog.get_logger(__name__)

FRESH_S = 1.0
MIN_RETRY_S, MAX_RETRY_S = 5, 300
PACES_KEPT = 100
SAMPLES_FRESH_S = 30.0


class QueueDepths:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_at = -math.inf
        self._rows: list[Waiting] | None = None
        # By project and queue, with what this process has accepted since.
        self._of_project: dict[UUID | None, Counter[str]] = {}
        self._ended_per_s: dict[str, float] = {}  # by queue, from the samples
        self._ended_at = -math.inf
        self._paces: dict[str, Snapshot] = {}  # the last snapshots of full queues

    def of_project(self, project_id: UUID) -> Counter[str] | None:
        """Tasks of a project by queue that no engine has started. None if they are not known."""
        self._refresh()
        return None if self._rows is None else self._of_project.get(project_id, Counter())

    def note(self, project_id: UUID, added: Mapping[str, int]) -> None:
        """These tasks were accepted, and count until the next reading does."""
        self._of_project.setdefault(project_id, Counter()).update(added)

    def position(self, queue: str, priority: Priority) -> int | None:
        """An estimate of the queue position of a task that becomes READY now, at most a second old. It knows no shares,
        limits and capabilities. None if Postgres does not answer."""
        self._refresh()
        if self._rows is None:
            return None
        before = {str(tier) for tier in TIERS[: TIERS.index(Tier(priority)) + 1]}
        return 1 + sum(row.waiting for row in self._rows if row.queue == queue and row.tier in before)

    def seconds_until(self, queue: str, excess: int) -> int:
        """Seconds until `excess` tasks have left the queue, at the rate since the last client that was refused."""
        wait = None
        try:
            now = get_broker().snapshot([queue])
            before = self._paces.pop(queue, None)
            pace = rates(before, now).get(queue) if before else None
            wait = None if pace is None else seconds_for(excess, pace.out_per_s)
            if len(self._paces) >= PACES_KEPT:
                self._paces.clear()
            self._paces[queue] = before if before and now.at_ms - before.at_ms < FRESH_S * 1000 else now
        except BrokerError as error:
            if not outages.report(error):
                log.warning("api.pace_unknown", error=str(error))
        return MIN_RETRY_S * 6 if wait is None else min(MAX_RETRY_S, max(MIN_RETRY_S, math.ceil(wait)))

    def wait_of(self, queue: str, position: int | None) -> float | None:
        """Seconds until a task at this position starts, at the rate of the last minutes. None if it is not known."""
        wait = None if position is None else seconds_for(position, self._ended_per_s.get(queue, 0.0))
        return None if wait is None else round(wait, 1)

    def forget(self) -> None:
        self._read_at, self._rows, self._of_project = -math.inf, None, {}
        self._ended_per_s, self._ended_at = {}, -math.inf
        self._paces.clear()

    def _refresh(self) -> None:
        if time.monotonic() - self._read_at < FRESH_S or not self._lock.acquire(blocking=False):
            return  # fresh, or another thread reads: the last numbers are good enough
        try:
            rows = waiting_by_project()
            found: dict[UUID | None, Counter[str]] = {}
            for row in rows:
                found.setdefault(row.project_id, Counter())[row.queue] += row.pending + row.waiting
            self._rows, self._of_project = rows, found
            if time.monotonic() - self._ended_at > SAMPLES_FRESH_S:
                self._ended_per_s, self._ended_at = ended_per_s(timezone.now()), time.monotonic()
        except Error as error:
            if not outages.report(error):
                log.warning("api.depth_unknown", error=str(error))
            self._rows, self._of_project = None, {}
        finally:
            self._read_at = time.monotonic()
            self._lock.release()


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
    """Raises 429 if the project has too many tasks for this job; otherwise counts its tasks."""
    project_id = principal.token.project_id if principal.token else principal.project().pk
    there = depths.of_project(project_id)
    if there is None:
        return
    wanted: Counter[str] = Counter()
    lowest: dict[str, Priority] = {}  # a job is refused as the least of its stages in a queue
    for stage in spec.stages:
        queue, priority = queue_of(stage), stage.priority or spec.priority
        wanted[queue] += 1
        lowest[queue] = max(lowest.get(queue, priority), priority, key=list(Priority).index)
    listed = principal.token is not None and principal.token.rate_preset == RatePreset.LISTED
    for queue, count in wanted.items():
        waiting = there[queue] + count
        if not is_accepted(waiting, lowest[queue], _steps(), listed=listed):
            seconds = depths.seconds_until(queue, waiting - _steps().waiting)
            detail = f"{there[queue]} tasks of this project wait in the queue {queue}: with {count} more it takes none"
            raise _full(f"{detail} of this priority.", seconds)
    limit: int = settings.DALSTON_BACKPRESSURE_PROJECT
    if there.total() + wanted.total() > limit:
        detail = f"{there.total()} tasks of this project wait in all its queues, and {limit} are the limit."
        raise _full(detail, MIN_RETRY_S * 6)
    depths.note(project_id, wanted)


def _full(detail: str, seconds: int) -> ApiProblem:
    again = f"{detail} Try again in {seconds} s."
    return ApiProblem(429, Code.QUEUE_FULL, again, headers={"Retry-After": str(seconds)})


def _steps() -> Steps:
    return Steps(
        settings.DALSTON_BACKPRESSURE_WAITING,
        settings.DALSTON_BACKPRESSURE_HIGH_ONLY,
        settings.DALSTON_BACKPRESSURE_LISTED_ONLY,
    )

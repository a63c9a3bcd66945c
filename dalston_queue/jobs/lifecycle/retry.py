"""The retry policy, pure: from a failed attempt and the time to a verdict. Each cause is one row of BUDGETS.

Crashes and failures are counted apart. A failure uses the task's retries and waits; the loss of an engine or a node
uses its own, separate budget and waits for nothing; a drain costs nothing at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from math import ceil

from django.conf import settings

from dalston_queue.broker.protocol.types import Cause, Priority

MAX_RETRY_AFTER_S = 365 * 86_400.0  # of what an engine may ask for: later times overflow a date


class Budget(Enum):
    RETRIES = "retries"
    ENGINES = "engine crashes"
    NODES = "lost nodes"
    NONE = "no retry"
    FREE = "costs nothing"
    CANCEL = "cancelled"


BUDGETS: dict[Cause, Budget] = {
    Cause.ERROR: Budget.RETRIES,
    Cause.TIMEOUT: Budget.RETRIES,
    Cause.GPU_OOM: Budget.RETRIES,
    Cause.RATE_LIMITED: Budget.RETRIES,
    Cause.ENGINE_LOST: Budget.ENGINES,
    Cause.NODE_LOST: Budget.NODES,
    Cause.REJECTED: Budget.NONE,
    Cause.DRAINED: Budget.FREE,
    Cause.CANCELLED: Budget.CANCEL,
}


GROWS_TIMEOUT = frozenset({Cause.TIMEOUT, Cause.GPU_OOM})
"""What a longer timeout may help: a task that was too slow, and one that has to wait for memory."""
OWN = "task"
"""In the table of budgets: as many retries as the task itself has."""


def retry_limits(table: str) -> dict[Cause, int]:
    """From the setting: the retries of the causes that name a number. The others have the task's own."""
    rows = (row.split("=") for row in table.split(","))
    return {Cause(cause): int(limit) for cause, limit in rows if limit != OWN}


def may_succeed(cause: str, reported: bool | None) -> bool:
    """Whether another attempt may end differently: what the engine reported, else by the cause."""
    if reported is not None:
        return reported
    return cause not in {Cause.REJECTED, Cause.CANCELLED}


@dataclass(frozen=True, slots=True)
class Attempt:
    """What the policy needs to know about the attempt that ended."""

    priority: Priority
    retry_count: int
    max_retries: int
    deliveries: int
    losses: int
    timeout_seconds: int
    stopping: bool  # a cancel was requested, or its job is ending


@dataclass(frozen=True, slots=True)
class Retry:
    """Another attempt, not before `at`."""

    at: datetime
    timeout_seconds: int
    charged: bool


@dataclass(frozen=True, slots=True)
class Exhausted:
    """No further attempt. `why` is shown to the operator."""

    why: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """The task ended as requested."""


Verdict = Retry | Exhausted | Cancel


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    backoff_base_s: float
    backoff_caps_s: Mapping[Priority, float]
    retry_limits: Mapping[Cause, int]
    timeout_growth: float
    timeout_max_s: int
    max_deliveries: int
    max_losses: int

    @classmethod
    def from_settings(cls) -> "RetryPolicy":
        return cls(
            backoff_base_s=settings.DALSTON_BACKOFF_BASE_S,
            backoff_caps_s={
                Priority.HIGH: settings.DALSTON_BACKOFF_CAP_HIGH_S,
                Priority.MEDIUM: settings.DALSTON_BACKOFF_CAP_MEDIUM_S,
                Priority.LOW: settings.DALSTON_BACKOFF_CAP_LOW_S,
            },
            retry_limits=retry_limits(settings.DALSTON_RETRY_BUDGETS),
            timeout_growth=settings.DALSTON_TIMEOUT_GROWTH,
            timeout_max_s=settings.DALSTON_TIMEOUT_MAX_S,
            max_deliveries=settings.DALSTON_MAX_DELIVERIES,
            max_losses=settings.DALSTON_MAX_DELIVERIES_NODE_LOST,
        )

    def decide(
        self,
        attempt: Attempt,
        cause: Cause,
        now: datetime,
        *,
        jitter: float,
        retry_after_s: float | None = None,
        retriable: bool | None = None,
    ) -> Verdict:
        """`jitter` is a random number from 0 to 1; `retry_after_s` and `retriable` are what the engine reported."""
        budget = BUDGETS[cause]
        if budget is Budget.CANCEL or attempt.stopping:
            return Cancel()
        if budget is Budget.NONE:
            return Exhausted("it was rejected, so another attempt would end the same way")
        if retriable is False and budget is Budget.RETRIES:
            return Exhausted("its engine reported that another attempt would end the same way")
        retries = min(attempt.max_retries, self.retry_limits.get(cause, attempt.max_retries))
        used, allowed = {
            Budget.RETRIES: (attempt.retry_count, retries),
            Budget.ENGINES: (attempt.deliveries, self.max_deliveries),
            Budget.NODES: (attempt.losses, self.max_losses),
            Budget.FREE: (0, 1),
        }[budget]
        if used >= allowed:
            return Exhausted(f"{used} of {allowed} {budget.value} used")
        if budget is not Budget.RETRIES:
            return Retry(now, attempt.timeout_seconds, charged=False)
        delay = self._backoff_s(attempt, cause) * jitter
        return Retry(
            now + timedelta(seconds=max(delay, min(retry_after_s or 0.0, MAX_RETRY_AFTER_S))),
            self._timeout_s(attempt.timeout_seconds, cause),
            charged=True,
        )

    def _backoff_s(self, attempt: Attempt, cause: Cause) -> float:
        """The upper end of the delay. Full jitter draws it from below, so that retries don't come in waves."""
        cap = self.backoff_caps_s[attempt.priority]
        limit = min(cap, self.backoff_base_s * 2.0 ** min(attempt.retry_count, 32))
        return 2 * limit if cause is Cause.RATE_LIMITED else limit

    def _timeout_s(self, current: int, cause: Cause) -> int:
        if cause not in GROWS_TIMEOUT:
            return current
        return max(current, min(self.timeout_max_s, ceil(current * self.timeout_growth)))

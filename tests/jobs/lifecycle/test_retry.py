"""The retry policy: one budget per cause, exponential backoff with full jitter."""

from datetime import timedelta
from typing import Any

import pytest

from dalston_queue.broker.protocol.types import Cause
from dalston_queue.jobs.lifecycle.retry import BUDGETS, Attempt, Cancel, Exhausted, Retry, RetryPolicy
from tests.jobs.make import NOW

POLICY = RetryPolicy(
    backoff_base_s=5, backoff_cap_s=60, timeout_growth=1.5, timeout_max_s=3600, max_deliveries=3, max_losses=10
)


def attempt(**changes: Any) -> Attempt:
    return Attempt(
        **{
            "retry_count": 0,
            "max_retries": 3,
            "deliveries": 0,
            "losses": 0,
            "timeout_seconds": 600,
            "stopping": False,
            **changes,
        }
    )


def decide(cause: Cause, jitter: float = 1.0, retry_after_s: float | None = None, **changes: int) -> object:
    return POLICY.decide(attempt(**changes), cause, NOW, jitter=jitter, retry_after_s=retry_after_s)


def after(seconds: float, timeout: int = 600, charged: bool = True) -> Retry:
    return Retry(NOW + timedelta(seconds=seconds), timeout, charged)


def test_every_cause_has_a_budget() -> None:
    assert BUDGETS.keys() == set(Cause)


@pytest.mark.parametrize(("retries", "limit"), [(0, 5), (1, 10), (2, 20)])
def test_the_wait_doubles(retries: int, limit: float) -> None:
    assert decide(Cause.ERROR, retry_count=retries) == after(limit)


def test_the_wait_is_capped() -> None:
    assert decide(Cause.ERROR, retry_count=40, max_retries=50) == after(60)


def test_full_jitter_goes_down_to_nothing() -> None:
    assert decide(Cause.ERROR, jitter=0.0) == after(0)
    assert decide(Cause.ERROR, jitter=0.5) == after(2.5)


def test_rate_limited_waits_twice_as_long() -> None:
    assert decide(Cause.RATE_LIMITED) == after(10)


def test_the_engine_may_ask_for_a_longer_wait_never_a_shorter_one() -> None:
    assert decide(Cause.RATE_LIMITED, retry_after_s=90) == after(90)
    assert decide(Cause.RATE_LIMITED, retry_after_s=1) == after(10)
    assert decide(Cause.RATE_LIMITED, retry_after_s=1e300) == after(365 * 86_400), "a date must come out of it"


@pytest.mark.parametrize(("timeout", "grown"), [(600, 900), (3000, 3600), (7200, 7200)])
def test_after_a_timeout_the_next_one_is_longer_up_to_an_hour(timeout: int, grown: int) -> None:
    assert decide(Cause.TIMEOUT, timeout_seconds=timeout) == after(5, grown)


@pytest.mark.parametrize("cause", [Cause.ERROR, Cause.TIMEOUT, Cause.GPU_OOM, Cause.RATE_LIMITED])
def test_failures_use_the_retries(cause: Cause) -> None:
    assert isinstance(decide(cause, retry_count=2), Retry)
    assert decide(cause, retry_count=3) == Exhausted("3 of 3 retries used")


def test_no_retries_wanted_means_none() -> None:
    assert decide(Cause.ERROR, max_retries=0) == Exhausted("0 of 0 retries used")


def test_engine_crashes_have_their_own_budget_and_cost_no_retry() -> None:
    assert decide(Cause.ENGINE_LOST, deliveries=2, retry_count=3) == after(0, charged=False)
    assert decide(Cause.ENGINE_LOST, deliveries=3) == Exhausted("3 of 3 engine crashes used")


def test_lost_nodes_have_a_larger_budget() -> None:
    assert decide(Cause.NODE_LOST, losses=9, deliveries=3) == after(0, charged=False)
    assert decide(Cause.NODE_LOST, losses=10) == Exhausted("10 of 10 lost nodes used")


def test_a_drain_costs_nothing() -> None:
    assert decide(Cause.DRAINED, retry_count=3, deliveries=3, losses=10) == after(0, charged=False)


def test_rejected_is_never_tried_again() -> None:
    assert decide(Cause.REJECTED) == Exhausted("it was rejected, so another attempt would end the same way")


def test_cancelled_is_not_a_failure() -> None:
    assert decide(Cause.CANCELLED) == Cancel()


@pytest.mark.parametrize("cause", list(Cause))
def test_whatever_happens_to_a_task_that_should_stop_it_stops(cause: Cause) -> None:
    assert decide(cause, stopping=True) == Cancel()

"""The retry policy: one budget per cause, exponential backoff with full jitter."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dalston_queue.broker.protocol.types import Cause, Priority
from dalston_queue.jobs.lifecycle.retry import (
    BUDGETS,
    Attempt,
    Cancel,
    Exhausted,
    Retry,
    RetryPolicy,
    may_succeed,
    retry_limits,
)
from tests.jobs.make import NOW

POLICY = RetryPolicy(
    backoff_base_s=5,
    backoff_caps_s={Priority.HIGH: 10, Priority.MEDIUM: 30, Priority.LOW: 60},
    retry_limits={},
    timeout_growth=1.5,
    timeout_max_s=3600,
    max_deliveries=3,
    max_losses=10,
)


def attempt(**changes: Any) -> Attempt:
    return Attempt(
        **{
            "priority": Priority.LOW,
            "retry_count": 0,
            "max_retries": 3,
            "deliveries": 0,
            "losses": 0,
            "timeout_seconds": 600,
            "stopping": False,
            **changes,
        }
    )


def decide(
    cause: Cause,
    jitter: float = 1.0,
    retry_after_s: float | None = None,
    retriable: bool | None = None,
    policy: RetryPolicy = POLICY,
    **changes: Any,
) -> object:
    return policy.decide(
        attempt(**changes), cause, NOW, jitter=jitter, retry_after_s=retry_after_s, retriable=retriable
    )


def after(seconds: float, timeout: int = 600, charged: bool = True) -> Retry:
    return Retry(NOW + timedelta(seconds=seconds), timeout, charged)


def test_every_cause_has_a_budget() -> None:
    assert BUDGETS.keys() == set(Cause)


@pytest.mark.parametrize(("retries", "limit"), [(0, 5), (1, 10), (2, 20)])
def test_the_wait_doubles(retries: int, limit: float) -> None:
    assert decide(Cause.ERROR, retry_count=retries) == after(limit)


@pytest.mark.parametrize(("priority", "cap"), [(Priority.HIGH, 10), (Priority.MEDIUM, 30), (Priority.LOW, 60)])
def test_the_wait_is_capped_by_priority(priority: Priority, cap: float) -> None:
    assert decide(Cause.ERROR, retry_count=40, max_retries=50, priority=priority) == after(cap)


def test_full_jitter_goes_down_to_nothing() -> None:
    assert decide(Cause.ERROR, jitter=0.0) == after(0)
    assert decide(Cause.ERROR, jitter=0.5) == after(2.5)


def test_rate_limited_waits_twice_as_long() -> None:
    assert decide(Cause.RATE_LIMITED) == after(10)


def test_the_engine_may_ask_for_a_longer_wait_never_a_shorter_one() -> None:
    assert decide(Cause.RATE_LIMITED, retry_after_s=90) == after(90)
    assert decide(Cause.RATE_LIMITED, retry_after_s=1) == after(10)
    assert decide(Cause.RATE_LIMITED, retry_after_s=1e300) == after(365 * 86_400), "a date must come out of it"


@pytest.mark.parametrize("cause", [Cause.TIMEOUT, Cause.GPU_OOM])
@pytest.mark.parametrize(("timeout", "grown"), [(600, 900), (3000, 3600), (7200, 7200)])
def test_after_a_timeout_or_too_little_memory_the_next_attempt_has_half_as_long_again(
    cause: Cause, timeout: int, grown: int
) -> None:
    assert decide(cause, timeout_seconds=timeout) == after(5, grown)


@pytest.mark.parametrize("cause", [Cause.ERROR, Cause.RATE_LIMITED])
def test_after_other_failures_the_timeout_stays(cause: Cause) -> None:
    verdict = decide(cause, jitter=0)
    assert isinstance(verdict, Retry)
    assert verdict.timeout_seconds == 600


def test_an_engine_may_say_that_another_attempt_would_end_the_same_way() -> None:
    never = Exhausted("its engine reported that another attempt would end the same way")
    assert decide(Cause.ERROR, retriable=False) == never
    assert decide(Cause.ERROR, retriable=True) == after(5)
    assert decide(Cause.ERROR, retriable=True, retry_count=3) == Exhausted("3 of 3 retries used")
    assert decide(Cause.REJECTED, retriable=True) == decide(Cause.REJECTED), "a rejected task is never tried again"


def test_each_cause_may_have_fewer_retries_than_the_task() -> None:
    policy = replace(POLICY, retry_limits=retry_limits("error=task,timeout=1,rate_limited=0"))
    assert decide(Cause.TIMEOUT, policy=policy, retry_count=1) == Exhausted("1 of 1 retries used")
    assert decide(Cause.RATE_LIMITED, policy=policy) == Exhausted("0 of 0 retries used")
    assert isinstance(decide(Cause.ERROR, policy=policy, retry_count=2), Retry)
    assert decide(Cause.TIMEOUT, policy=policy, max_retries=0) == Exhausted("0 of 0 retries used")


def test_the_default_table_of_budgets_leaves_each_task_its_own() -> None:
    assert RetryPolicy.from_settings().retry_limits == {}


def test_what_may_succeed_is_what_the_engine_reported_else_by_the_cause() -> None:
    assert [may_succeed(cause, None) for cause in ("error", "timeout", "rejected", "cancelled")] == [
        True, True, False, False,
    ]  # fmt: skip
    assert may_succeed("error", False) is False


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

"""The circuit breaker of an engine: when it opens, how many trial tasks it admits, and when it closes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalston_queue.broker.engine.breaker import Breaker, BreakerRules, BreakerState

RULES = BreakerRules(failures=5, open_s=60, trials=3)


def opened(at: float = 0.0) -> Breaker:
    breaker = Breaker(RULES)
    assert [breaker.record(False, at) for _ in range(5)] == [False] * 4 + [True]
    return breaker


def test_four_failures_and_a_success_leave_it_closed() -> None:
    breaker = Breaker(RULES)
    for _ in range(3):
        for succeeded in (False, False, False, False, True):
            assert not breaker.record(succeeded, 0)
    assert breaker.admits(8, 0, 0) == 8


def test_the_fifth_failure_opens_it_for_a_minute() -> None:
    breaker = opened()
    assert breaker.state(59.9) is BreakerState.OPEN
    assert breaker.admits(8, 0, 59.9) == 0
    assert breaker.why(59.9) == "5 tasks failed in a row: no work for 60 s, then 3 trial tasks"
    assert breaker.why(60) == "5 tasks failed in a row: half-open, it may run 3 trial tasks"


def test_half_open_lets_three_trials_through_and_no_more() -> None:
    breaker = opened()
    assert breaker.state(60) is BreakerState.HALF_OPEN
    assert [breaker.admits(8, running, 60) for running in range(5)] == [3, 2, 1, 0, 0]
    assert breaker.admits(1, 0, 60) == 1


def test_three_good_trials_close_it() -> None:
    breaker = opened()
    assert [breaker.record(True, 61 + n) for n in range(3)] == [False, False, True]
    assert (breaker.state(64), breaker.in_a_row) == (BreakerState.CLOSED, 0)


def test_a_trial_that_fails_opens_it_for_another_minute() -> None:
    breaker = opened()
    breaker.record(True, 61)
    assert not breaker.record(False, 62)
    assert breaker.state(121) is BreakerState.OPEN
    assert breaker.admits(8, 0, 122) == 3, "the trials begin anew"


def test_a_task_that_ran_when_it_opened_is_no_trial() -> None:
    breaker = opened()
    assert [breaker.record(True, 1) for _ in range(5)] == [False] * 5
    assert breaker.admits(8, 0, 60) == 3


def test_without_a_limit_of_failures_it_never_opens() -> None:
    breaker = Breaker(BreakerRules(failures=0))
    assert not any(breaker.record(False, n) for n in range(100))


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 100)), max_size=30))
def test_what_is_stored_is_read_back(history: list[tuple[bool, float]]) -> None:
    breaker, now = Breaker(RULES), 0.0
    for succeeded, passed in history:
        now += passed
        breaker.record(succeeded, now)
        assert Breaker.read(breaker.stored(), RULES) == Breaker.read(breaker.stored()) == breaker


@pytest.mark.parametrize("raw", [None, b"", b"[]", b"\xff", b'{"a": 1}', b'["a", 1, 2]', b"[5, 1.0, 0]"])
def test_a_value_that_can_t_be_read_is_a_closed_breaker(raw: bytes | None) -> None:
    assert Breaker.read(raw, RULES) == Breaker(RULES)


def test_it_reports_each_change_once() -> None:
    breaker = Breaker(RULES)
    changes = [breaker.record(succeeded, 100.0 * n) for n, succeeded in enumerate([False] * 8 + [True] * 5)]
    assert [n for n, changed in enumerate(changes) if changed] == [4, 10]

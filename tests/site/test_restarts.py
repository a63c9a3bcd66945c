"""A process that dies is started again, but not one that can't live."""

from dalston_site.up.restarts import MOST, WITHIN_S, Restarts


def test_a_process_may_die_now_and_then() -> None:
    restarts = Restarts()
    assert all(restarts.allow("web", now=number * WITHIN_S) for number in range(3 * MOST))


def test_one_that_dies_again_and_again_is_given_up() -> None:
    restarts = Restarts()
    assert all(restarts.allow("web", now=float(second)) for second in range(MOST))
    assert not restarts.allow("web", now=WITHIN_S - 1)
    assert restarts.allow("orchestrator-1", now=WITHIN_S - 1), "each process is counted for itself"
    assert restarts.allow("web", now=WITHIN_S + 1)

"""A process that dies is started again, but not one that can't live."""

from dalston_site.up.children import MAX_RESTARTS, RESTART_WINDOW_S, Restarts


def test_a_process_may_die_now_and_then() -> None:
    restarts = Restarts()
    assert all(restarts.allow("web", now=number * RESTART_WINDOW_S) for number in range(3 * MAX_RESTARTS))


def test_one_that_dies_again_and_again_is_given_up() -> None:
    restarts = Restarts()
    assert all(restarts.allow("web", now=float(second)) for second in range(MAX_RESTARTS))
    assert not restarts.allow("web", now=RESTART_WINDOW_S - 1)
    assert restarts.allow("orchestrator-1", now=RESTART_WINDOW_S - 1), "each process is counted for itself"
    assert restarts.allow("web", now=RESTART_WINDOW_S + 1)

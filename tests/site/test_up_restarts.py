"""`./dev up` restarts a process that dies, but not one that dies again and again."""

from dalston_site.up.children import MAX_RESTARTS, RESTART_WINDOW_S, Restarts


def test_a_process_may_die_now_and_then() -> None:
    restarts = Restarts()
    assert all(restarts.allow("web", now=number * RESTART_WINDOW_S) for number in range(3 * MAX_RESTARTS))


def test_one_that_dies_again_and_again_is_not_restarted() -> None:
    restarts = Restarts()
    assert all(restarts.allow("web", now=float(second)) for second in range(MAX_RESTARTS))
    assert not restarts.allow("web", now=RESTART_WINDOW_S - 1)
    assert restarts.allow("orchestrator-1", now=RESTART_WINDOW_S - 1), "each process has its own count"
    assert restarts.allow("web", now=RESTART_WINDOW_S + 1)

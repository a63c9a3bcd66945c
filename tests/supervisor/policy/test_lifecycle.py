"""Lifecycle of an engine slot as pure functions: states, signals, restarts. The tests pass the time."""

import signal

from dalston_queue.broker.protocol.types import EngineState
from engines.sdk.manifest import Manifest
from supervisor.policy import lifecycle
from supervisor.policy.lifecycle import History, Life
from supervisor.process.exits import Exit, ExitKind, classify

MANIFEST = Manifest(id="demo", stage="echo", command=("x",), ready_timeout=10.0, watchdog=5.0)
CRASH = Exit(ExitKind.SIGNAL, None, 9, "signal 9")


def ready(now: float) -> Life:
    return lifecycle.noticed(lifecycle.spawned(Life(), now), {"READY": "1"}, now)


def signals_until(life: Life, now: float) -> list[tuple[float, signal.Signals]]:
    """The signals to a process that ignores them all, with their times."""
    sent = []
    at = 0.0
    while at <= now:
        life, rung = lifecycle.climbed(life, at)
        if rung:
            sent.append((at, rung.signal))
        else:
            at += 0.5
    return sent


def test_the_way_to_ready_leads_through_starting_and_loading() -> None:
    life = lifecycle.spawned(Life(), 0.0)
    assert life.state is EngineState.STARTING
    life = lifecycle.noticed(life, {"STATUS": "loading the model"}, 1.0)
    assert (life.state, life.why) == (EngineState.LOADING, "loading the model")
    life = lifecycle.noticed(life, {"READY": "1", "STATUS": "ready"}, 2.0)
    assert life.state is EngineState.READY


def test_an_engine_that_is_never_ready_is_overdue_after_its_ready_timeout() -> None:
    life = lifecycle.spawned(Life(), 0.0)
    assert lifecycle.verdict(life, MANIFEST, 10.0) is None
    assert lifecycle.verdict(life, MANIFEST, 10.1) is ExitKind.NOT_READY


def test_no_notice_within_the_watchdog_is_a_hang() -> None:
    life = ready(0.0)
    assert lifecycle.verdict(life, MANIFEST, 5.1) is ExitKind.HANG
    life = lifecycle.noticed(life, {"WATCHDOG": "1"}, 4.0)
    assert lifecycle.verdict(life, MANIFEST, 8.9) is None


def test_a_hung_engine_gets_term_cont_abrt_and_kill() -> None:
    life = lifecycle.killing(ready(0.0), ExitKind.HANG, 0.0)
    names = [number for _, number in signals_until(life, 10.0)]
    assert names == [signal.SIGTERM, signal.SIGCONT, signal.SIGABRT, signal.SIGKILL]


def test_an_engine_that_is_stopped_may_finish_before_it_must_release() -> None:
    life = lifecycle.stopping(ready(0.0), "drain", 30.0, 0.0)
    sent = signals_until(life, 60.0)
    assert sent[0] == (0.0, signal.SIGTERM)
    assert sent[1] == (30.0, signal.SIGTERM)
    assert sent[-1] == (34.0, signal.SIGKILL)


def test_a_second_stop_only_counts_with_a_shorter_grace() -> None:
    life = lifecycle.stopping(ready(0.0), "drain", 30.0, 0.0)
    life, _ = lifecycle.climbed(life, 0.0)
    assert lifecycle.stopping(life, "drain", 30.0, 10.0) is life
    sooner = lifecycle.stopping(life, "spot", 5.0, 10.0)
    assert sooner.climb is not None
    assert (15.0, signal.SIGTERM) in signals_until(sooner, 60.0)


def test_a_shorter_grace_does_not_repeat_the_first_term_which_would_count_as_the_second() -> None:
    life, _ = lifecycle.climbed(lifecycle.stopping(ready(0.0), "drain", 30.0, 0.0), 0.0)
    life = lifecycle.stopping(life, "spot", 5.0, 10.0)
    assert signals_until(life, 60.0)[0] == (15.0, signal.SIGTERM)


def test_without_grace_the_second_term_is_sent_again_apart_from_the_first_and_before_abrt() -> None:
    sent = signals_until(lifecycle.stopping(ready(0.0), "spot", 0.0, 0.0), 10.0)
    aborted = next(at for at, number in sent if number is signal.SIGABRT)
    terms = [at for at, number in sent if number is signal.SIGTERM]
    assert 0.0 < terms[-1] <= aborted - 2.0


def test_a_stopping_engine_shows_the_reason_of_its_stop() -> None:
    life = lifecycle.stopping(ready(0.0), "drained by ada", 30.0, 1.0)
    assert lifecycle.noticed(life, {"STATUS": "draining, 3 tasks left"}, 2.0).why == "drained by ada"


def test_a_minute_after_kill_it_is_unkillable_and_its_end_opens_the_slot_again() -> None:
    life = lifecycle.killing(ready(0.0), ExitKind.HANG, 0.0)
    while life.climb and life.climb.step < len(life.climb.rungs):
        life, _ = lifecycle.climbed(life, 2.0)
    life, _ = lifecycle.climbed(life, 61.9)
    assert life.state is EngineState.DRAINING
    life, _ = lifecycle.climbed(life, 62.0)
    assert life.state is EngineState.UNKILLABLE
    assert lifecycle.exited(life, CRASH, 70.0, 0.5).state is EngineState.BACKOFF


def test_restarts_wait_one_second_doubling_with_jitter() -> None:
    delays = []
    history = History()
    for number in range(4):
        history = history.failed(number, ready_for=0.0)
        delays.append((history.delay(0.0), history.delay(1.0)))
    assert delays == [(0.5, 1.0), (1.0, 2.0), (2.0, 4.0), (4.0, 8.0)]


def test_five_failures_in_ten_minutes_are_a_crash_loop_that_is_retried_every_minute() -> None:
    life = Life()
    for number in range(5):
        life = lifecycle.exited(lifecycle.spawned(life, number), CRASH, number, 0.5)
    assert life.state is EngineState.CRASHLOOP
    assert not lifecycle.startable(life, 63.0)
    assert lifecycle.startable(life, 64.0)
    assert not History(life.history.failures).failed(700.0, ready_for=0.0).looping


def test_five_minutes_of_being_ready_clear_earlier_failures() -> None:
    life = Life()
    for number in range(4):
        life = lifecycle.exited(lifecycle.spawned(life, number), CRASH, number, 0.5)
    life = lifecycle.exited(lifecycle.noticed(lifecycle.spawned(life, 10.0), {"READY": "1"}, 10.0), CRASH, 311.0, 1.0)
    assert (life.state, life.retry_at) == (EngineState.BACKOFF, 312.0)


def test_exit_78_is_final_and_a_requested_stop_is_no_failure() -> None:
    config = classify(78, stop_reason="", oom_kills=0, log_tail=[])
    assert lifecycle.exited(ready(0.0), config, 1.0, 0.5).state is EngineState.FATAL
    stopped = classify(0, stop_reason="restart", oom_kills=0, log_tail=[])
    life = lifecycle.exited(ready(0.0), stopped, 1.0, 0.5)
    assert (life.state, life.history.failures) == (EngineState.PENDING, ())
    assert lifecycle.exited(lifecycle.unwanted(ready(0.0)), stopped, 1.0, 0.5).state is EngineState.STOPPED


def test_a_fatal_engine_is_started_after_a_change_of_its_configuration() -> None:
    fatal = lifecycle.not_spawned(Life(), "no such program")
    assert not lifecycle.startable(fatal, 1000.0)
    assert lifecycle.startable(lifecycle.reconsidered(fatal), 1000.0)

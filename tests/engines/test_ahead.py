"""An engine of one task at a time claims ahead while its tasks are quick. Nothing waits there for long."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dalston_queue.broker import connect
from dalston_queue.broker.errors import Unavailable
from dalston_queue.broker.operations.requeue import Requeued
from dalston_queue.broker.protocol.messages import ErrorInfo
from dalston_queue.broker.protocol.types import Cause, EventKind
from dalston_site.embedded.server import Server
from engines.sdk import Engine, Task, ahead
from engines.sdk.ahead import AT_ONCE, QUICK, TRUSTED_AFTER, Ahead
from engines.sdk.happenings import Pause, Stop, Woken
from engines.sdk.runner import BEAT_EVERY, Runner
from tests.engines.workbench import QUEUE, Bench, Sleeper, counted_calls
from tests.support import Spawned, keeps_time, wait_until

TINY: dict[str, Any] = {}
HOLD: dict[str, Any] = {"hold": True}
ENGINE = """
from engines.sdk import engine

@engine
def quick(task):
    return task.id

if __name__ == "__main__":
    quick.serve()
"""


class Held(Engine):
    """Quick, but for tasks that are held until released or cancelled, or stay until cancelled."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.deadlines: dict[str, float | None] = {}
        self.release = threading.Event()

    def run(self, task: Task) -> None:
        self.ran.append(task.id)
        self.deadlines[task.id] = task.deadline
        if task.parameters.get("fail"):
            raise ValueError("as asked")
        while task.parameters.get("hold") and not self.release.wait(0.01):
            task.check()
        while task.parameters.get("stay"):
            task.wait(60)
            task.check()


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks count as quick however slow the machine is."""
    monkeypatch.setattr(ahead, "QUICK", 60.0)


@pytest.fixture
def patient(trusting: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what waits stays until something else happens."""
    monkeypatch.setattr(ahead, "PATIENCE", 60.0)


def trusted(bench: Bench, engine: Engine, **fields: Any) -> Runner:
    """An idle engine whose tasks were quick so far."""
    runner = bench.start(engine, **fields)
    warm(bench, runner)
    return runner


def warm(bench: Bench, runner: Runner) -> None:
    ended(bench, EventKind.TASK_COMPLETED, bench.submit_many([TINY] * TRUSTED_AFTER))
    assert runner.ahead.allowed == AT_ONCE


def give(bench: Bench, held: Held, parameters: list[dict[str, Any]], timeout_ms: int = 0) -> list[str]:
    """One call appends them, and one claims up to eight of them; the first of those to be held runs by now."""
    ids = bench.submit_many(parameters, timeout_ms)
    bench.wait(EventKind.TASK_STARTED, ids[-1])
    if HOLD in parameters:
        wait_until(lambda: ids[parameters.index(HOLD)] in held.ran, what="the task that is held")
    return ids


def ended(bench: Bench, kind: EventKind, ids: list[str]) -> None:
    wait_until(lambda: set(ids) <= {event.task_id for event in bench.events(kind)}, what=f"{kind} of {len(ids)}")


def test_only_who_was_quick_and_right_for_a_while_claims_ahead() -> None:
    hands = Ahead(1, enabled=True)
    for _ in range(TRUSTED_AFTER):
        assert hands.allowed == 1
        hands.record(QUICK / 2, done=True)
    assert hands.allowed == AT_ONCE
    hands.record(QUICK, done=True)
    assert hands.allowed == 1
    for _ in range(TRUSTED_AFTER):
        hands.record(QUICK / 2, done=True)
    hands.record(QUICK / 2, done=False)
    assert hands.allowed == 1


class Async(Engine):
    async def run(self, _task: Task) -> None:
        pass


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(("engine", "capacity"), [(Sleeper(), 2), (Sleeper(), 32), (Async(), 1)])
def test_an_engine_of_many_threads_or_of_none_claims_only_what_it_can_run(
    bench: Bench, engine: Engine, capacity: int
) -> None:
    runner = bench.start(engine, capacity=capacity)
    most: list[int] = []
    begin = runner._begin

    def counted(claimed: Any) -> None:
        begin(claimed)
        most.append(len(runner.consumer.held) - len(runner.unsettled))

    runner._begin = counted  # type: ignore[method-assign]
    ended(bench, EventKind.TASK_COMPLETED, bench.submit_many([TINY] * 4 * TRUSTED_AFTER))
    assert max(most) <= capacity
    assert not runner.ahead.waiting


@pytest.mark.usefixtures("patient")
def test_quick_tasks_share_their_trips_and_run_once_in_order(bench: Bench, held: Held) -> None:
    runner = trusted(bench, held)
    calls = counted_calls(runner)
    held.ran.clear()
    ids = give(bench, held, [TINY] * 20 * AT_ONCE)
    ended(bench, EventKind.TASK_COMPLETED, ids)
    assert held.ran == ids
    assert len(calls) <= 40  # twenty, and some of the runner's own thread
    assert len([event for event in bench.events(EventKind.TASK_COMPLETED) if event.task_id in ids]) == len(ids)


@pytest.mark.usefixtures("trusting")
def test_nothing_waits_behind_a_long_task_while_another_engine_is_idle(bench: Bench, held: Held) -> None:
    trusted(bench, held)
    long, *others = give(bench, held, [HOLD, *[TINY] * (AT_ONCE - 1)])
    bench.start()
    ended(bench, EventKind.TASK_COMPLETED, others)
    assert bench.events(EventKind.TASK_COMPLETED, long) == []
    given_back = [event for event in bench.events(EventKind.TASK_HANDED_BACK) if event.task_id in others]
    assert {event.task_id for event in given_back} == set(others)
    assert {event.deliveries for event in given_back} == {0}
    assert not set(others) & set(held.ran)


@pytest.mark.usefixtures("trusting")
def test_behind_a_long_task_results_are_told_and_tasks_given_back_within_moments(bench: Bench, held: Held) -> None:
    runner = trusted(bench, held)

    def once() -> float:
        held.release.clear()
        quick, long, behind = give(bench, held, [TINY, HOLD, TINY])
        begin = time.monotonic()
        bench.wait(EventKind.TASK_COMPLETED, quick)
        bench.wait(EventKind.TASK_HANDED_BACK, behind)
        took = time.monotonic() - begin
        assert bench.events(EventKind.TASK_COMPLETED, long) == []
        held.release.set()
        bench.wait(EventKind.TASK_COMPLETED, behind)
        warm(bench, runner)
        return took

    keeps_time(BEAT_EVERY / 4, lambda: max(once() for _ in range(4)))  # not only with the next beat


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("word", [Stop, Pause])
def test_a_stop_and_a_pause_release_what_has_not_begun(bench: Bench, held: Held, word: type[Stop | Pause]) -> None:
    runner = trusted(bench, held, stop_grace=60.0)
    running, *waiting = give(bench, held, [HOLD, TINY, TINY])
    runner.inbox.put(word())
    ended(bench, EventKind.TASK_HANDED_BACK, waiting)
    held.release.set()
    bench.wait(EventKind.TASK_COMPLETED, running)
    assert not set(waiting) & set(held.ran)
    assert bench.broker.snapshot().queues[0].waiting == len(waiting)


@pytest.mark.usefixtures("patient")
def test_a_breaker_that_opens_hands_back_what_has_not_begun(bench: Bench, held: Held) -> None:
    trusted(bench, held)
    *failing, last = give(bench, held, [*[{"fail": True}] * 5, TINY])
    ended(bench, EventKind.TASK_FAILED, failing)
    bench.wait(EventKind.TASK_HANDED_BACK, last)
    assert last not in held.ran


@pytest.mark.usefixtures("patient")
def test_a_task_that_is_cancelled_before_it_began_never_runs(bench: Bench, held: Held) -> None:
    trusted(bench, held)
    _, cancelled, last = give(bench, held, [HOLD, TINY, TINY])
    bench.broker.request_cancel(QUEUE, cancelled)
    bench.wait(EventKind.TASK_CANCELLED, cancelled)
    held.release.set()
    bench.wait(EventKind.TASK_COMPLETED, last)
    assert cancelled not in held.ran


@pytest.mark.usefixtures("patient")
def test_a_fenced_engine_forgets_what_has_not_begun(bench: Bench, held: Held) -> None:
    """It was taken for dead, and its tasks are in line again: what it still has in hand is not its own."""
    runner = trusted(bench, held)
    ids = give(bench, held, [HOLD, TINY, TINY])
    bench.broker.reclaim(runner.identity.engine_id, [QUEUE], max_deliveries=3, max_losses=10)
    wait_until(lambda: len(bench.events(EventKind.TASK_STARTED, ids[0])) == 2, what="its second start")
    held.release.set()
    ended(bench, EventKind.TASK_COMPLETED, ids)
    recovered = bench.events(EventKind.TASK_RECOVERED)
    assert [(event.deliveries, event.losses) for event in recovered] == [(0, 1)] * len(ids)
    assert [held.ran.count(task) for task in ids] == [2, 1, 1]
    assert [len(bench.events(EventKind.TASK_COMPLETED, task)) for task in ids] == [1, 1, 1]


@pytest.mark.usefixtures("patient")
def test_a_broken_connection_costs_none_of_those_in_hand(
    valkey_server: Callable[..., Server], held: Held, tmp_path: Path
) -> None:
    """On a server of its own: all connections are broken, those of other tests would be among them."""
    bench = Bench(connect(valkey_server().url), tmp_path)
    trusted(bench, held)
    ids = give(bench, held, [HOLD, TINY, TINY])
    [shard] = bench.broker.shards_of(QUEUE)
    assert shard.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") > 0
    with contextlib.suppress(Unavailable):
        bench.events(EventKind.TASK_COMPLETED)  # the connection of the test's own reader is among them
    held.release.set()
    ended(bench, EventKind.TASK_COMPLETED, ids)
    bench.stop(hurry=True)
    assert [held.ran.count(task) for task in ids] == [1, 1, 1]
    assert [len(bench.events(EventKind.TASK_COMPLETED, task)) for task in ids] == [1, 1, 1]


@pytest.mark.usefixtures("patient")
def test_the_clock_of_a_task_runs_from_its_start(bench: Bench, held: Held) -> None:
    trusted(bench, held)
    _, behind = give(bench, held, [HOLD, TINY], timeout_ms=60_000)
    released_at = time.time()
    held.release.set()
    bench.wait(EventKind.TASK_COMPLETED, behind)
    assert (held.deadlines[behind] or 0) >= released_at + 60


@pytest.mark.usefixtures("patient")
def test_a_task_that_waited_is_timed_out_in_time(bench: Bench, held: Held) -> None:
    """The runner's thread had no reason to be awake then: the first of the batch has no timeout."""
    runner = trusted(bench, held)

    def once() -> float:
        held.release.clear()
        _, late = give(bench, held, [HOLD, {"stay": True, "timeout_ms": 20}])
        begin = time.monotonic()
        held.release.set()
        failed = bench.wait(EventKind.TASK_FAILED, late)
        took = time.monotonic() - begin
        assert failed.error is not None
        assert failed.error.cause is Cause.TIMEOUT
        warm(bench, runner)
        return took

    keeps_time(BEAT_EVERY / 4, lambda: max(once() for _ in range(4)))  # not only with the next beat


@pytest.mark.usefixtures("patient")
def test_what_is_in_hand_is_not_released_when_it_is_told_again(bench: Bench, held: Held) -> None:
    """A beat may tell of what the waiter claimed before the waiter does."""
    runner = trusted(bench, held)
    ids = give(bench, held, [HOLD, TINY])
    runner.inbox.put(Woken(found=False, claimed=runner.consumer.held))
    wait_until(lambda: runner.inbox.empty() and not runner.turn.locked(), what="its turn")
    held.release.set()
    ended(bench, EventKind.TASK_COMPLETED, ids)
    assert bench.events(EventKind.TASK_HANDED_BACK) == []
    assert [held.ran.count(task) for task in ids] == [1, 1]


@pytest.mark.usefixtures("patient")
def test_a_task_that_was_taken_away_before_it_began_is_not_run_here(bench: Bench, held: Held) -> None:
    """An operator put it back in line: whoever claims it next runs it."""
    runner = trusted(bench, held)
    _, taken = give(bench, held, [HOLD, TINY])
    assert bench.broker.requeue(QUEUE, taken, 1, ErrorInfo(message="as asked")) is Requeued.RETURNED
    wait_until(lambda: not runner.ahead.waiting, what="nothing in hand")
    held.release.set()
    bench.wait(EventKind.TASK_COMPLETED, taken)
    assert held.ran.count(taken) == 1


@pytest.mark.usefixtures("patient")
def test_the_report_shows_what_runs_and_not_what_waits(bench: Bench, held: Held) -> None:
    runner = trusted(bench, held)
    running, *_ = give(bench, held, [HOLD, TINY, TINY])
    said = runner._description()
    assert (said.info["running"], said.capacity) == (1, 1)
    assert [task.task_id for task in said.info["tasks"]] == [running]


def test_a_killed_engine_loses_none_of_those_in_its_hands(
    spawn: Callable[..., Spawned], process_env: dict[str, str], bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "engine.yaml").write_text(f"id: quick\nstage: {QUEUE}\ncommand: [python, engine.py]\n")
    (tmp_path / "engine.py").write_text(ENGINE)
    arguments = ("-m", "engines.sdk", "run", str(tmp_path))
    env = {**process_env, "DALSTON_ENGINE_ID": "n.quick.0.a"}
    ids = bench.submit_many([TINY] * 20_000)
    engine = spawn(*arguments, env=env)
    wait_until(lambda: len(bench.events(EventKind.TASK_COMPLETED)) > 2 * TRUSTED_AFTER, what="work")
    engine.stop(signal.SIGKILL)
    taken = bench.broker.reclaim("n.quick.0.a", [QUEUE], max_deliveries=3, max_losses=10)
    assert len(taken.recovered) <= AT_ONCE
    spawn(*arguments, env={**env, "DALSTON_ENGINE_ID": "n.quick.0.b"})
    wait_until(lambda: len(bench.events(EventKind.TASK_COMPLETED)) >= len(ids), what="all results")
    assert sorted(event.task_id for event in bench.events(EventKind.TASK_COMPLETED)) == sorted(ids)
    again = len(taken.recovered) + len(bench.events(EventKind.TASK_HANDED_BACK))
    assert len(bench.events(EventKind.TASK_STARTED)) == len(ids) + again

"""Prefetch: tasks claimed beyond the capacity wait in a buffer. None is lost, stuck, hoarded or timed out there."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dalston_queue.broker import Delivery, connect
from dalston_queue.broker.errors import Unavailable
from dalston_queue.broker.operations.requeue import Requeued
from dalston_queue.broker.protocol.messages import ErrorInfo
from dalston_queue.broker.protocol.types import Cause, EventKind
from dalston_site.embedded.server import Server
from engines.sdk import Engine, Task
from engines.sdk.process import slots
from engines.sdk.process.report import heartbeat
from engines.sdk.process.runner import RENEW_EVERY_S, Pause, Resume, Runner, Stop
from engines.sdk.process.slots import PREFETCH_WAIT_S
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
SLOW_ENGINE = ENGINE.replace("return task.id", "task.wait(task.parameters.get('seconds', 0))")


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
def long_prefetch_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefetched tasks stay in the buffer until an event releases them."""
    monkeypatch.setattr(slots, "PREFETCH_WAIT_S", 60.0)


def prefetched(
    bench: Bench, held: Held, parameters: list[dict[str, Any]], timeout_ms: int = 0, **fields: Any
) -> tuple[Runner, list[str]]:
    """An engine that has claimed all of these tasks: they are appended behind a task whose settlement fills the buffer.
    The first HOLD task runs already."""
    first, *ids = bench.submit_many([TINY, *parameters], timeout_ms)
    runner = bench.start(held, **{"prefetch": len(parameters) - 1, **fields})
    bench.wait(EventKind.TASK_COMPLETED, first)
    bench.wait(EventKind.TASK_STARTED, ids[-1])
    if HOLD in parameters:
        wait_until(lambda: ids[parameters.index(HOLD)] in held.ran, what="the task that is held")
    return runner, ids


def ended(bench: Bench, kind: EventKind, ids: list[str]) -> None:
    wait_until(lambda: set(ids) <= {event.task_id for event in bench.events(kind)}, what=f"{kind} of {len(ids)}")


class Async(Engine):
    async def run(self, _task: Task) -> None:
        pass


@pytest.mark.usefixtures("long_prefetch_wait")
@pytest.mark.parametrize(("engine", "capacity"), [(Sleeper(), 1), (Sleeper(), 4), (Async(), 4)])
@pytest.mark.parametrize("prefetch", [0, 1, 8])
def test_no_more_is_held_than_capacity_and_prefetch(bench: Bench, engine: Engine, capacity: int, prefetch: int) -> None:
    runner = bench.start(engine, capacity=capacity, prefetch=prefetch)
    held: list[int] = []
    start = runner._hold

    def counted(deliveries: list[Delivery]) -> None:
        start(deliveries)
        held.append(len(runner.consumer.held))
        assert len(runner.slots.running) <= capacity

    runner._hold = counted  # type: ignore[method-assign]
    ids = bench.submit_many([TINY] * 300)
    ended(bench, EventKind.TASK_COMPLETED, ids)
    assert max(held) <= capacity + prefetch
    assert len(bench.events(EventKind.TASK_STARTED)) == len(ids)
    assert not runner.slots.buffered


@pytest.mark.usefixtures("long_prefetch_wait")
def test_prefetched_tasks_share_their_round_trips_and_run_once_in_order(bench: Bench, held: Held) -> None:
    ids = bench.submit_many([TINY] * 160)
    runner = bench.make(held, prefetch=8)
    calls = counted_calls(runner)
    bench.run(runner)
    ended(bench, EventKind.TASK_COMPLETED, ids)
    assert held.ran == ids
    assert len(calls) <= 100  # about two for nine
    assert len(bench.events(EventKind.TASK_COMPLETED)) == len(ids)


def test_an_idle_engine_leaves_the_rest_of_a_burst_to_other_idle_engines(bench: Bench) -> None:
    """It claims ahead only with a call that settles."""
    engines = [bench.start(Held(), prefetch=8) for _ in range(2)]
    wait_until(lambda: all(runner.waiter.armed for runner in engines), what="two idle engines")
    bench.submit_many([HOLD, HOLD])
    wait_until(lambda: [len(runner.slots.running) for runner in engines] == [1, 1], what="a task each")
    assert bench.events(EventKind.TASK_RELEASED) == []


def test_nothing_waits_behind_a_long_task_while_another_engine_is_idle(bench: Bench, held: Held) -> None:
    _, (long, *others) = prefetched(bench, held, [HOLD, *[TINY] * 7])
    bench.start(capacity=1, prefetch=0)
    ended(bench, EventKind.TASK_COMPLETED, others)
    assert bench.events(EventKind.TASK_COMPLETED, long) == []
    released = [event for event in bench.events(EventKind.TASK_RELEASED) if event.task_id in others]
    assert {event.task_id for event in released} == set(others)
    assert {event.deliveries for event in released} == {0}
    assert not set(others) & set(held.ran)


def test_by_default_a_task_waits_for_a_moment_at_most_and_is_released_once(bench: Bench, held: Held) -> None:
    """Released, it is not claimed again by the same engine, which is still busy."""
    first, long, behind = bench.submit_many([TINY, HOLD, TINY])
    bench.start(held)
    bench.wait(EventKind.TASK_COMPLETED, first)
    bench.wait(EventKind.TASK_STARTED, behind)
    claimed_at = time.monotonic()
    bench.wait(EventKind.TASK_RELEASED, behind)
    assert time.monotonic() - claimed_at < PREFETCH_WAIT_S + 10
    bench.broker.request_cancel(QUEUE, long)
    bench.wait(EventKind.TASK_CANCELLED, long)  # several beats later
    bench.wait(EventKind.TASK_COMPLETED, behind)
    assert len(bench.events(EventKind.TASK_RELEASED, behind)) == 1


@pytest.mark.usefixtures("long_prefetch_wait")
@pytest.mark.parametrize("event", [Stop, Pause])
def test_a_stop_and_a_pause_release_the_buffer(bench: Bench, held: Held, event: type[Stop | Pause]) -> None:
    runner, (running, *waiting) = prefetched(bench, held, [HOLD, TINY, TINY], stop_grace=60.0)
    runner.inbox.put(event())
    ended(bench, EventKind.TASK_RELEASED, waiting)
    held.release.set()
    bench.wait(EventKind.TASK_COMPLETED, running)
    assert not set(waiting) & set(held.ran)
    assert bench.broker.snapshot().queues[0].waiting == len(waiting)
    assert {event.deliveries for event in bench.events(EventKind.TASK_RELEASED)} == {0}
    runner.inbox.put(Resume())
    if event is Pause:
        ended(bench, EventKind.TASK_COMPLETED, waiting)


@pytest.mark.usefixtures("long_prefetch_wait")
def test_a_breaker_that_opens_releases_the_buffer(bench: Bench, held: Held) -> None:
    """Exactly: after a failure no worker starts a task before the breaker has counted it."""
    _, (*failing, last) = prefetched(bench, held, [*[{"fail": True}] * 5, TINY])
    ended(bench, EventKind.TASK_FAILED, failing)
    assert bench.wait(EventKind.TASK_RELEASED, last).deliveries == 0
    assert last not in held.ran


@pytest.mark.usefixtures("long_prefetch_wait")
def test_a_task_that_is_cancelled_in_the_buffer_never_runs(bench: Bench, held: Held) -> None:
    _, (_, cancelled, last) = prefetched(bench, held, [HOLD, TINY, TINY])
    bench.broker.request_cancel(QUEUE, cancelled)
    bench.wait(EventKind.TASK_CANCELLED, cancelled)
    held.release.set()
    bench.wait(EventKind.TASK_COMPLETED, last)
    assert cancelled not in held.ran


@pytest.mark.usefixtures("long_prefetch_wait")
def test_a_buffered_task_is_renewed_while_it_waits(bench: Bench, held: Held) -> None:
    _, (_, behind) = prefetched(bench, held, [HOLD, TINY])
    renewed = bench.broker.records(QUEUE, [behind])[behind].renewed_at_ms
    wait_until(lambda: bench.broker.records(QUEUE, [behind])[behind].renewed_at_ms > renewed, what="its renewal")


@pytest.mark.usefixtures("long_prefetch_wait")
def test_a_fenced_engine_forgets_its_buffer(bench: Bench, held: Held) -> None:
    """It was judged dead, and its tasks are in their queue again: what it still holds is not its own."""
    runner, ids = prefetched(bench, held, [HOLD, TINY, TINY])
    bench.broker.reclaim(runner.identity.engine_id, [QUEUE], max_deliveries=3, max_losses=10)
    wait_until(lambda: len(bench.events(EventKind.TASK_STARTED, ids[0])) == 2, what="its second start")
    held.release.set()
    ended(bench, EventKind.TASK_COMPLETED, ids)
    recovered = bench.events(EventKind.TASK_RECOVERED)
    assert [(event.deliveries, event.losses) for event in recovered] == [(0, 1)] * len(ids)
    assert [held.ran.count(task) for task in ids] == [2, 1, 1]
    assert [len(bench.events(EventKind.TASK_COMPLETED, task)) for task in ids] == [1, 1, 1]


@pytest.mark.usefixtures("long_prefetch_wait")
def test_a_broken_connection_costs_none_of_the_buffer(
    valkey_server: Callable[..., Server], held: Held, tmp_path: Path
) -> None:
    """On a server of its own: all connections are broken, those of other tests would be among them."""
    bench = Bench(connect(valkey_server().url), tmp_path)
    _, ids = prefetched(bench, held, [HOLD, TINY, TINY])
    [shard] = bench.broker.shards_of(QUEUE)
    assert shard.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") > 0
    with contextlib.suppress(Unavailable):
        bench.events(EventKind.TASK_COMPLETED)  # the connection of the test's own reader is among them
    held.release.set()
    ended(bench, EventKind.TASK_COMPLETED, ids)
    bench.stop(hurry=True)
    assert [held.ran.count(task) for task in ids] == [1, 1, 1]
    assert [len(bench.events(EventKind.TASK_COMPLETED, task)) for task in ids] == [1, 1, 1]


@pytest.mark.usefixtures("long_prefetch_wait")
def test_the_clock_of_a_task_runs_from_its_start(bench: Bench, held: Held) -> None:
    _, (_, behind) = prefetched(bench, held, [HOLD, TINY], timeout_ms=60_000)
    released_at = time.time()
    held.release.set()
    bench.wait(EventKind.TASK_COMPLETED, behind)
    assert (held.deadlines[behind] or 0) >= released_at + 60


@pytest.mark.usefixtures("long_prefetch_wait")
def test_waiting_in_the_buffer_uses_up_no_timeout(bench: Bench, held: Held) -> None:
    """It waits for longer than it may run."""
    _, (_, behind) = prefetched(bench, held, [HOLD, {"timeout_ms": 300}])
    time.sleep(0.4)
    held.release.set()
    bench.wait(EventKind.TASK_COMPLETED, behind)


@pytest.mark.usefixtures("long_prefetch_wait")
def test_a_task_that_waited_is_timed_out_in_time(bench: Bench, held: Held) -> None:
    """The runner had no reason to be awake then: the task before it has no timeout."""
    runner = bench.start(held, prefetch=2)

    def once() -> float:
        held.release.clear()
        _, hold, late = bench.submit_many([TINY, HOLD, {"stay": True, "timeout_ms": 20}])
        bench.wait(EventKind.TASK_STARTED, late)
        wait_until(lambda: hold in held.ran, what="the task that is held")
        begin = time.monotonic()
        held.release.set()
        failed = bench.wait(EventKind.TASK_FAILED, late)
        took = time.monotonic() - begin
        assert failed.error is not None
        assert failed.error.cause is Cause.TIMEOUT
        wait_until(lambda: runner.waiter.armed, what="an idle engine")
        return took

    keeps_time(RENEW_EVERY_S / 4, lambda: max(once() for _ in range(4)))  # not only with the next renewal


@pytest.mark.usefixtures("long_prefetch_wait")
def test_a_task_that_was_requeued_from_the_buffer_is_not_run_here(bench: Bench, held: Held) -> None:
    """An operator requeued it: the engine that claims it next runs it."""
    runner, (_, taken) = prefetched(bench, held, [HOLD, TINY])
    assert bench.broker.requeue(QUEUE, taken, 1, ErrorInfo(message="as asked")) is Requeued.RETURNED
    wait_until(lambda: not runner.slots.buffered, what="an empty buffer")
    held.release.set()
    bench.wait(EventKind.TASK_COMPLETED, taken)
    assert held.ran.count(taken) == 1


@pytest.mark.usefixtures("long_prefetch_wait")
def test_the_heartbeat_shows_what_runs_and_not_what_waits(bench: Bench, held: Held) -> None:
    runner, (running, *_) = prefetched(bench, held, [HOLD, TINY, TINY])
    beat = heartbeat(runner.identity, runner.manifest, (), runner.breaker, runner.slots.running, draining=False)
    assert (beat.info["running"], beat.capacity) == (1, 1)
    assert [task.task_id for task in beat.info["tasks"]] == [running]


def engine_in(folder: Path, source: str, prefetch: int) -> tuple[str, ...]:
    (folder / "engine.yaml").write_text(
        f"id: quick\nstage: {QUEUE}\ncommand: [python, engine.py]\nprefetch: {prefetch}\n"
    )
    (folder / "engine.py").write_text(source)
    return ("-m", "engines.sdk", "run", str(folder))


def test_a_killed_engine_loses_none_of_its_buffer(
    spawn: Callable[..., Spawned], process_env: dict[str, str], bench: Bench, tmp_path: Path
) -> None:
    arguments = engine_in(tmp_path, ENGINE, prefetch=8)
    env = {**process_env, "DALSTON_ENGINE_ID": "n.quick.0.a"}
    ids = bench.submit_many([TINY] * 20_000)
    engine = spawn(*arguments, env=env)
    wait_until(lambda: len(bench.events(EventKind.TASK_COMPLETED)) > 100, what="work")
    engine.stop(signal.SIGKILL)
    taken = bench.broker.reclaim("n.quick.0.a", [QUEUE], max_deliveries=3, max_losses=10)
    assert len(taken.recovered) <= 9
    spawn(*arguments, env={**env, "DALSTON_ENGINE_ID": "n.quick.0.b"})
    wait_until(lambda: len(bench.events(EventKind.TASK_COMPLETED)) >= len(ids), what="all results")
    assert sorted(event.task_id for event in bench.events(EventKind.TASK_COMPLETED)) == sorted(ids)
    again = len(taken.recovered) + len(bench.events(EventKind.TASK_RELEASED))
    assert len(bench.events(EventKind.TASK_STARTED)) == len(ids) + again


def test_a_process_that_gets_sigterm_finishes_its_task_and_releases_its_buffer(
    spawn: Callable[..., Spawned], process_env: dict[str, str], bench: Bench, tmp_path: Path
) -> None:
    arguments = engine_in(tmp_path, SLOW_ENGINE, prefetch=2)
    _, running, *waiting = bench.submit_many([TINY, {"seconds": 0.8}, {"seconds": 60}, {"seconds": 60}])
    engine = spawn(*arguments, env={**process_env, "DALSTON_ENGINE_ID": "n.quick.0.a"})
    bench.wait(EventKind.TASK_STARTED, waiting[-1])
    engine.stop()
    bench.wait(EventKind.TASK_COMPLETED, running)
    ended(bench, EventKind.TASK_RELEASED, waiting)
    assert bench.broker.snapshot().queues[0].waiting == len(waiting)

"""The runner on a real Redis, in a thread of the test: claims, settles, cancels, outlives errors, drains."""

import asyncio
import signal
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dalston_queue.artifacts.store import Writer
from dalston_queue.broker import Broker, Consumer
from dalston_queue.broker.engine.stale import StaleRules
from dalston_queue.broker.errors import Unavailable
from dalston_queue.broker.protocol.messages import TaskMessage
from dalston_queue.broker.protocol.types import Cause, EventKind
from engines.sdk import Cancelled, Engine, Reject, Task
from engines.sdk.process.runner import RENEW_EVERY_S
from tests.engines.workbench import QUEUE, Bench, counted_calls
from tests.support import WAIT_TIMEOUT_S, Spawned, keeps_time, wait_until


def test_every_task_runs_once_and_its_result_arrives(bench: Bench) -> None:
    bench.start(capacity=4)
    ids = bench.submit_many([{"n": number} for number in range(200)])
    wait_until(lambda: len(bench.events(EventKind.TASK_COMPLETED)) == 200, what="200 results")
    results = {event.task_id: event.result["n"] for event in bench.events(EventKind.TASK_COMPLETED)}
    assert results == dict(zip(ids, range(200), strict=True))
    assert len(bench.events(EventKind.TASK_STARTED)) == 200


def test_a_busy_engine_makes_at_most_one_round_trip_per_task(bench: Bench) -> None:
    bench.submit_many([{"n": number} for number in range(101)])
    runner = bench.start(capacity=1)
    calls = counted_calls(runner)
    wait_until(lambda: len(bench.events(EventKind.TASK_COMPLETED)) == 101, what="all results")
    assert len(calls) <= 104  # one each at most, and a few around the first and the last


def test_a_cancel_reaches_a_running_task_within_a_second(bench: Bench, broker: Broker) -> None:
    bench.start()

    def once() -> float:
        task = bench.submit(seconds=30)
        bench.wait(EventKind.TASK_STARTED, task)
        asked_at = time.monotonic()
        broker.request_cancel(QUEUE, task)
        bench.wait(EventKind.TASK_CANCELLED, task)
        return time.monotonic() - asked_at

    keeps_time(1.0, once)


def test_progress_is_visible_while_the_task_runs(bench: Bench, broker: Broker) -> None:
    bench.start()
    task = bench.submit(seconds=60)
    record = wait_until(
        lambda: [r for r in broker.records(QUEUE, [task]).values() if b"asleep" in bytes(str(r.progress), "utf-8")]
    )
    assert record


def test_a_task_that_heeds_its_deadline_ends_as_a_timeout(bench: Bench) -> None:
    bench.start()
    [task] = bench.submit_many([{"seconds": 30}], timeout_ms=300)
    failed = bench.wait(EventKind.TASK_FAILED, task)
    assert failed.error is not None
    assert failed.error.cause is Cause.TIMEOUT


def test_the_engines_own_timeout_counts_when_it_is_shorter(bench: Bench) -> None:
    bench.start(timeout=0.3)
    failed = bench.wait(EventKind.TASK_FAILED, bench.submit(seconds=30))
    assert failed.error is not None
    assert failed.error.cause is Cause.TIMEOUT


def test_a_fenced_engine_drops_its_work_and_serves_on(bench: Bench, broker: Broker) -> None:
    """Judged dead while it was only slow: its result is refused, the task runs again, and the engine is back."""
    runner = bench.start()
    task = bench.submit(seconds=1.5)
    bench.wait(EventKind.TASK_STARTED, task)
    broker.reclaim(runner.identity.engine_id, [QUEUE], max_deliveries=3, max_losses=10)
    bench.wait(EventKind.TASK_COMPLETED, task)
    assert len(bench.events(EventKind.TASK_STARTED, task)) == 2
    assert len(bench.events(EventKind.TASK_COMPLETED, task)) == 1


def test_an_engine_reclaims_by_the_budgets_of_its_environment(bench: Bench, broker: Broker) -> None:
    task = bench.submit()
    dead = Consumer(broker, "node.t.dead.boot", [QUEUE])
    dead.open()
    dead.claim()
    broker.registry.condemn(broker.registry.beat_counters()[dead.engine_id], Cause.ENGINE_LOST)
    bench.start(stale=StaleRules(max_deliveries=1))
    bench.wait(EventKind.TASK_EXHAUSTED, task)


def test_the_second_stop_releases_what_is_not_finished(bench: Bench, broker: Broker) -> None:
    bench.start(capacity=2, stop_grace=60.0)
    task = bench.submit(seconds=60)
    bench.wait(EventKind.TASK_STARTED, task)
    bench.stop(hurry=True)
    assert bench.wait(EventKind.TASK_RELEASED, task).deliveries == 0
    assert broker.snapshot().queues[0].waiting == 1


def test_a_result_that_is_too_large_is_refused_with_advice(bench: Bench) -> None:
    class Chatty(Engine):
        def run(self, task: Task) -> str:
            return "x" * int(task.parameters["n"])

    bench.start(Chatty(), store=False)
    failed = bench.wait(EventKind.TASK_FAILED, bench.submit(n=2000))
    assert failed.error is not None
    assert "DALSTON_ARTIFACTS_URL" in failed.error.message


def test_an_odd_error_or_report_costs_neither_the_engine_nor_its_other_tasks(bench: Bench) -> None:
    class Odd(Engine):
        def run(self, task: Task) -> Any:
            match task.parameters.get("how"):
                case "reject":
                    return Reject(ValueError("bad audio"))  # type: ignore[arg-type]
                case "raise":
                    raise RuntimeError("no file \udc80.wav")
            while not others_failed.wait(RENEW_EVERY_S):
                task.progress(Decimal("0.5"), Path("\udc80.wav"))  # type: ignore[arg-type]
            return "fine"

    others_failed = threading.Event()
    bench.start(Odd(), capacity=3)
    other, rejected, raised = bench.submit(), bench.submit(how="reject"), bench.submit(how="raise")
    for task, message in ((rejected, "bad audio"), (raised, r"no file \udc80.wav")):
        failed = bench.wait(EventKind.TASK_FAILED, task)
        assert failed.error is not None
        assert failed.error.message == message
    others_failed.set()
    assert bench.wait(EventKind.TASK_COMPLETED, other).result == "fine"


class Sizes(Engine):
    async def run(self, task: Task) -> str:
        await asyncio.sleep(task.parameters["seconds"])
        return "x" * int(task.parameters["size"])


def test_a_slow_bucket_holds_up_no_other_task_of_an_async_engine(
    bench: Bench, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, asked, answers = bench.make(Sizes(), capacity=2), threading.Event(), threading.Event()
    store = runner.workspace.store
    assert store is not None
    writer = store.writer

    def held_back() -> Writer:
        asked.set()
        assert answers.wait(WAIT_TIMEOUT_S)
        return writer()

    monkeypatch.setattr(store, "writer", held_back)
    bench.run(runner)
    other = bench.submit(seconds=60, size=1)
    wait_until(lambda: runner.slots.running, what="the other task runs")
    stored = bench.submit(seconds=0, size=20_000)
    assert asked.wait(WAIT_TIMEOUT_S)
    broker.request_cancel(QUEUE, other)
    bench.wait(EventKind.TASK_CANCELLED, other)
    [storing] = runner.slots.running
    broker.request_cancel(QUEUE, stored)  # comes too late: its run has ended
    wait_until(lambda: storing.cancelled, what="the cancel has arrived")
    answers.set()
    bench.wait(EventKind.TASK_COMPLETED, stored)


def test_async_tasks_share_one_loop_and_run_at_once(bench: Bench) -> None:
    class Meeting(Engine):
        async def load(self) -> None:
            self.barrier = asyncio.Barrier(3)

        async def run(self, _task: Task) -> str:
            async with asyncio.timeout(WAIT_TIMEOUT_S):
                await self.barrier.wait()
            return "met"

    engine = Meeting()
    runner = bench.start(engine, capacity=3)
    runner.workers.call(engine.load)
    for task in bench.submit_many([{}, {}, {}]):
        assert bench.wait(EventKind.TASK_COMPLETED, task).result == "met"


def test_an_open_breaker_takes_no_work(bench: Bench) -> None:
    runner = bench.start()
    for task in bench.submit_many([{"fail": True}] * 5):
        bench.wait(EventKind.TASK_FAILED, task)
    wait_until(lambda: runner.breaker.is_open, what="the breaker to open")
    waiting = bench.submit()
    bench.broker.snapshot()
    assert bench.events(EventKind.TASK_STARTED, waiting) == []


def test_a_cancel_without_a_request_is_a_failure(bench: Bench) -> None:
    class Quitter(Engine):
        def run(self, _task: Task) -> Cancelled:
            return Cancelled()

    bench.start(Quitter())
    failed = bench.wait(EventKind.TASK_FAILED, bench.submit())
    assert failed.error is not None
    assert "without a request" in failed.error.message


def test_an_engine_whose_supervisor_is_gone_releases_its_tasks_and_ends(
    spawn: Callable[..., Spawned], process_env: dict[str, str], broker: Broker
) -> None:
    """As on a system without setpriv, where the kernel does not end the engine."""
    supervisor = spawn("sleep", "600")
    env = {**process_env, "DALSTON_ENGINE_ID": "n.demo.0.a", "DALSTON_SUPERVISOR_PID": str(supervisor.pid)}
    engine = spawn("-m", "engines.sdk", "run", "engines/demo", env=env)
    message = TaskMessage(
        task_id="t", job_id="j", queue="sleep", task_type="sleep", attempt=1, parameters={"seconds": 60}
    )
    broker.append([message])
    wait_until(lambda: broker.records("sleep", ["t"])["t"].owner, what="its start")
    supervisor.stop(signal.SIGKILL)
    wait_until(lambda: not broker.records("sleep", ["t"])["t"].owner, what="the task released")
    assert engine.wait() == 0
    for queue in ("echo", "sleep", "fail"):
        broker.reset_queue(queue)


def test_a_task_that_is_delivered_by_two_answers_runs_once(bench: Bench) -> None:
    """After a broken call the delivery comes again, with the next beat and with the next exchange."""
    runs: list[str] = []

    class Counting(Engine):
        def run(self, task: Task) -> None:
            runs.append(task.id)

    runner = bench.start(Counting(), capacity=2)
    exchange = runner.consumer.exchange
    broken: list[bool] = []

    def breaking(settlements: Any = (), free: int | None = None) -> Any:
        answer = exchange(settlements, free)
        if answer.claimed and not broken:
            broken.append(True)
            runner.consumer._new = answer.claimed  # as if another queue's answer had been lost after this one's
            raise Unavailable("the connection broke")
        return answer

    runner.consumer.exchange = breaking  # type: ignore[method-assign]
    task = bench.submit()
    bench.wait(EventKind.TASK_COMPLETED, task)
    later = bench.submit()
    bench.wait(EventKind.TASK_COMPLETED, later)
    assert runs == [task, later]

"""Engines that hang, stop, never get ready or ignore TERM: noticed by missing progress, ended by the ladder."""

import signal
import time

import pytest

from dalston_queue.broker.protocol.types import Cause, EngineState, EventKind
from engines.sdk.notify import notify
from tests.supervisor.node import Node, alive, kill
from tests.support import keeps_time, wait_until


def test_only_the_engine_itself_can_report_that_it_is_ready(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.engine(env={"FIXTURE_LOAD": "slow", "FIXTURE_SECONDS": "5"})
    node.start()
    node.wait_state(EngineState.LOADING)
    monkeypatch.setenv("NOTIFY_SOCKET", str(node.state_dir / "notify"))
    assert notify("READY=1")  # but we are not the engine
    assert node.process is not None
    node.process.wait_for("its sender is no engine")
    assert node.engines()[0].state is EngineState.LOADING
    node.ready()


def test_an_engine_that_is_not_ready_in_time_is_ended(node: Node) -> None:
    node.engine(env={"FIXTURE_LOAD": "slow", "FIXTURE_SECONDS": "60"}, ready_timeout=1)
    node.start()
    [engine] = node.wait_state(EngineState.BACKOFF)
    assert "not ready within its ready_timeout" in engine.info["last_exit"]


def test_a_task_without_progress_is_a_hang_though_the_process_lives(node: Node) -> None:
    node.engine(watchdog=1, replicas=2, stop_grace=10)  # with a short one it would leave by itself, before ABRT
    node.start()
    node.ready(2)
    working = node.submit("slow", seconds=2.2)
    victim = node.pid_of(node.started(working).engine_id)
    hung = node.submit("hang")
    node.started(hung)
    recovered = node.wait_event(hung, EventKind.TASK_RECOVERED)
    assert recovered.error is not None
    assert "hang" in recovered.error.message
    node.result(working)  # progress kept the other one alive, longer than the watchdog
    assert alive(victim)
    wait_until(lambda: "Fatal Python error: Aborted" in node.all_logs(), what="the stack dump")
    wait_until(lambda: "in hang" in node.all_logs(), what="its line for the hung function")


def test_a_hang_is_seen_though_other_tasks_of_the_process_come_and_go(node: Node) -> None:
    node.engine(watchdog=1.5, capacity=2)
    node.start()
    [engine] = node.ready()
    node.started(node.submit("hang"))

    def ended() -> bool:
        node.result(node.submit("ready"))  # which tells the supervisor of a change, but not of progress
        return node.engines()[0].engine_id != engine.engine_id

    wait_until(ended, what="the end of the one that hangs")
    assert "it hung" in node.engines()[0].report.last_exits[-1].text


def test_a_stopped_engine_is_replaced_and_its_late_result_refused(node: Node) -> None:
    node.engine(watchdog=1, replicas=2)
    node.start()

    def once() -> float:
        node.ready(2)
        task = node.submit("slow", seconds=1.5)
        victim = node.started(task).engine_id
        pid = node.pid_of(victim)
        kill(pid, signal.SIGSTOP)
        stopped_at = time.monotonic()
        again = node.started(task, times=2)
        took = time.monotonic() - stopped_at
        assert again.engine_id != victim
        wait_until(lambda: not alive(pid), what="the end of the stopped engine, by CONT and KILL")
        assert node.result(task)["engine"] == again.engine_id
        assert len(node.events(task, EventKind.TASK_COMPLETED)) == 1
        return took

    keeps_time(2.0, once)


def test_a_task_past_its_deadline_times_out_and_its_engine_is_ended(node: Node) -> None:
    node.engine(capacity=2)
    node.start()
    [engine] = node.ready()
    innocent = node.submit("slow", seconds=6)
    node.started(innocent)
    late = node.submit("hang", timeout_ms=700)
    failed = node.wait_event(late, EventKind.TASK_FAILED)
    assert failed.error is not None
    assert failed.error.cause is Cause.TIMEOUT
    wait_until(lambda: not alive(engine.info["pid"]), what="the end of its engine")
    [after] = node.ready()
    assert "past its deadline" in after.info["last_exit"]
    recovered = node.wait_event(innocent, EventKind.TASK_RECOVERED)
    assert recovered.deliveries == 0  # the innocent is not charged


def test_an_engine_that_exits_with_a_running_task_logs_its_stack(node: Node) -> None:
    node.engine(stop_grace=0.3)
    node.start()
    node.ready()
    node.started(node.submit("hang"))
    node.stop()
    logs = node.all_logs()
    assert "exit with 1 tasks that did not stop" in logs
    assert "in hang" in logs
    assert "Fatal Python error" not in logs, "it exited by itself"


def test_an_engine_that_ignores_term_is_killed_after_its_grace(node: Node) -> None:
    node.engine(env={"FIXTURE_LOAD": "ignore-TERM"}, stop_grace=0.5)
    node.start()
    [engine] = node.ready()
    task = node.submit("hang")
    node.started(task)
    node.stop()
    assert not alive(engine.info["pid"])
    assert node.wait_event(task, EventKind.TASK_RECOVERED).deliveries == 0  # after a drain no task is charged

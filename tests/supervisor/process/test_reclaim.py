"""Reclaim: a dead engine's task starts on another within a second; a task that kills engines is exhausted."""

import time
from collections.abc import Callable
from pathlib import Path

from dalston_queue.broker.protocol.types import EngineState, EventKind
from supervisor.process.notices import NoticeSocket
from tests.supervisor.node import Node, alive, kill
from tests.support import keeps_time


def test_an_engine_runs_tasks_and_stops_with_its_supervisor(make_node: Callable[..., Node], tmp_path: Path) -> None:
    systemd = NoticeSocket(tmp_path / "systemd")
    node = make_node(NOTIFY_SOCKET=str(systemd.path))
    node.engine()
    node.start()
    [engine] = node.ready()
    assert node.process is not None
    notices = systemd.receive()
    assert {notice.pid for notice in notices} == {node.process.pid}  # engines notify the supervisor, not systemd
    assert {"READY": "1", "STATUS": "node node-a"} in [notice.fields for notice in notices]
    assert {"WATCHDOG": "1"} in [notice.fields for notice in notices]
    result = node.result(node.submit("ready", n=7))
    assert result == {"engine": engine.engine_id, "pid": engine.info["pid"], "n": 7}
    node.stop()
    assert not alive(engine.info["pid"])
    assert node.engines() == []
    assert {"STOPPING": "1"} in [notice.fields for notice in systemd.receive()]
    systemd.close()


def test_work_of_a_killed_engine_runs_on_another_within_a_second(node: Node) -> None:
    node.engine(replicas=2)
    node.start()

    def once() -> float:
        node.ready(2)
        task = node.submit("slow", seconds=0.5)
        victim = node.started(task).engine_id
        pid = node.pid_of(victim)
        killed_at = time.monotonic()
        kill(pid)
        again = node.started(task, times=2)
        took = time.monotonic() - killed_at
        assert again.engine_id != victim
        recovered = node.wait_event(task, EventKind.TASK_RECOVERED)
        assert recovered.error is not None
        assert recovered.error.evidence["signal"] == 9
        assert "signal 9 (SIGKILL)" in recovered.error.message
        assert node.result(task)["engine"] == again.engine_id
        return took

    keeps_time(1.0, once)
    node.ready(2)  # with a new process in the dead one's slot


def test_a_poison_task_is_exhausted_after_three_engines_with_evidence(node: Node) -> None:
    node.engine(replicas=3)
    node.start()
    node.ready(3)
    poison = node.submit("poison")
    innocent = node.submit("ready", n=1)
    exhausted = node.wait_event(poison, EventKind.TASK_EXHAUSTED)
    assert exhausted.deliveries == 3
    assert exhausted.error is not None
    evidence = exhausted.error.evidence
    assert (evidence["kind"], evidence["signal"]) == ("signal", 11)
    assert any(f"poison {poison}" in text for text in evidence["log"])
    assert any("Segmentation fault" in text for text in evidence["log"])
    assert any("in poison" in text for text in evidence["stack"])
    assert node.result(innocent)["n"] == 1
    assert node.process is not None
    assert node.process.running()
    assert node.result(node.submit("ready", n=2))["n"] == 2


def test_the_reason_of_an_exit_is_shown_with_evidence(node: Node) -> None:
    node.engine("crash", env={"FIXTURE_LOAD": "crash"})
    node.engine("config", env={"FIXTURE_LOAD": "config"})
    node.engine("cuda", env={"FIXTURE_LOAD": "oom"})
    node.engine("missing", command=["./no-such-program"])
    node.start()
    [fatal] = node.wait_state(EngineState.FATAL, name="config")
    assert "exit code 78" in fatal.info["last_exit"]
    [missing] = node.wait_state(EngineState.FATAL, name="missing")
    assert "no-such-program" in missing.info["why"]
    [crash] = node.wait_state(EngineState.BACKOFF, name="crash")
    assert crash.info["last_exit"] == "exit code 3"
    [cuda] = node.wait_state(EngineState.BACKOFF, name="cuda")
    assert "CUDA out of memory" in cuda.info["last_exit"]
    assert "about to crash" in node.all_logs()

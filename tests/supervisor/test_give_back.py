"""A dead engine's work runs elsewhere within a second; a task that kills engines comes to rest with its black box."""

import time

from dalston_queue.broker.types import EventKind
from tests.supervisor.node import Node, alive, kill


def test_an_engine_runs_tasks_and_stops_with_its_supervisor(node: Node) -> None:
    node.engine()
    node.start()
    [engine] = node.ready()
    result = node.result(node.submit("ready", n=7))
    assert result == {"engine": engine.engine_id, "pid": engine.info["pid"], "n": 7}
    node.stop()
    assert not alive(engine.info["pid"])
    assert node.engines() == []


def test_work_of_a_killed_engine_runs_on_another_within_a_second(node: Node) -> None:
    node.engine(replicas=2)
    node.start()
    node.ready(2)
    task = node.submit("slow", seconds=0.5)
    victim = node.started(task).engine_id
    pid = node.pid_of(victim)
    killed_at = time.monotonic()
    kill(pid)
    again = node.started(task, times=2)
    assert time.monotonic() - killed_at < 1.0
    assert again.engine_id != victim
    recovered = node.wait_event(task, EventKind.TASK_RECOVERED)
    assert recovered.error is not None
    assert recovered.error.evidence["signal"] == 9
    assert "signal 9 (SIGKILL)" in recovered.error.message
    assert node.result(task)["engine"] == again.engine_id
    node.ready(2)  # and a new process took the dead one's place

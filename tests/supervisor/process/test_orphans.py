"""Orphans: after the death of an engine or a supervisor no process is left running and no task is lost."""

import signal

from dalston_queue.broker.protocol.types import EngineState, EventKind
from supervisor.process import orphans
from tests.supervisor.node import Node, alive, kill
from tests.support import wait_until


def test_children_and_setsid_grandchildren_end_with_their_engine(node: Node) -> None:
    node.engine()
    node.start()
    [engine] = node.ready()
    pids = [node.result(node.submit(mode))["child"] for mode in ("fork", "setsid")]
    assert all(alive(pid) for pid in pids)
    kill(engine.info["pid"])
    wait_until(lambda: not any(alive(pid) for pid in pids), what=f"the end of {pids}")
    [again] = node.ready()
    pids = [node.result(node.submit(mode))["child"] for mode in ("fork", "setsid")]
    node.stop()
    assert not any(alive(pid) for pid in (again.info["pid"], *pids))


def test_descendants_that_fork_while_they_are_killed_end(node: Node) -> None:
    node.engine()
    node.start()
    [engine] = node.ready()
    node.result(node.submit("fork_many"))
    wait_until(lambda: len(family(engine.engine_id)) > 20, what="a large family")
    kill(engine.info["pid"])
    wait_until(lambda: not family(engine.engine_id), what="the end of all of them")
    assert node.ready()


def family(engine_id: str) -> list[int]:
    return [process.pid for process in orphans.marked("DALSTON_ENGINE_ID", engine_id) if alive(process.pid)]


def test_the_next_supervisor_cleans_up_after_a_killed_one(node: Node) -> None:
    """The state file names the engines; the marks in the environment name the grandchildren."""
    node.engine(replicas=2)
    first = node.start()
    pids = {engine.info["pid"] for engine in node.ready(2)}
    stray = node.result(node.submit("setsid"))["child"]
    task = node.submit("slow", seconds=0.5)
    node.started(task)
    first.send(signal.SIGKILL)
    first.wait()
    wait_until(lambda: not any(alive(pid) for pid in pids), what="engines gone with their supervisor")
    assert alive(stray)
    node.start()
    assert node.result(task)
    successors = {engine.info["pid"] for engine in node.ready(2)}
    assert not alive(stray)
    assert not successors & pids
    assert len(node.events(task, EventKind.TASK_COMPLETED)) == 1
    assert len(node.engines()) == 2  # none of the old ones


def test_one_supervisor_per_node_and_the_second_names_the_first(node: Node) -> None:
    node.engine()
    first = node.start()
    node.ready()
    second = node.start()
    assert second.wait() != 0
    assert f"pid {first.pid}" in second.output
    assert "already runs" in second.output
    node.process = first
    node.ready()


def test_a_supervisor_that_stops_ends_engines_that_are_still_loading(node: Node) -> None:
    node.engine(env={"FIXTURE_LOAD": "slow", "FIXTURE_SECONDS": "60"}, replicas=2)
    node.start()
    loading = node.wait_state(EngineState.LOADING, 2)
    node.stop()
    assert not any(alive(engine.info["pid"]) for engine in loading)

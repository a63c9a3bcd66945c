"""Commands from the API: answered, handled once, idempotent, and kept over a restart."""

import signal
import sys
import time
from typing import Any

from dalston_queue.broker.nodes.commands import Command, CommandState, CommandStatus
from dalston_queue.broker.nodes.reports import DrainReport
from dalston_queue.broker.protocol.types import EngineState, EventKind, NodeState
from tests.supervisor.node import FIXTURE, Node, alive
from tests.support import wait_until


def send(node: Node, name: str, **arguments: Any) -> str:
    return node.broker.node(node.name).send(Command(name=name, arguments=arguments, actor="ada"))


def status(node: Node, command_id: str) -> CommandStatus:
    found = node.broker.node(node.name).status(command_id)
    assert found is not None
    return found


def run(node: Node, name: str, **arguments: Any) -> str:
    """Sends the command, waits until it is done, returns the final message."""
    command_id = send(node, name, **arguments)
    wait_until(lambda: status(node, command_id).ended, what=f"the end of {name}")
    ended = status(node, command_id)
    assert ended.state is CommandState.DONE, ended.message
    return ended.message


def refused(node: Node, name: str, **arguments: Any) -> str:
    command_id = send(node, name, **arguments)
    wait_until(lambda: status(node, command_id).ended, what=f"the refusal of {name}")
    ended = status(node, command_id)
    assert ended.state is CommandState.FAILED, ended.message
    return ended.message


def drain_of(node: Node) -> DrainReport | None:
    [info] = [info for info in node.broker.registry.nodes() if info.node_id == node.name]
    return info.report.drain


def state(node: Node) -> tuple[NodeState, str]:
    [info] = [info for info in node.broker.registry.nodes() if info.node_id == node.name]
    return info.state, info.info["why"]


def test_drain_stops_engines_survives_a_restart_and_resume_starts_them(node: Node) -> None:
    node.engine(stop_grace=10)
    node.start()
    [engine] = node.ready()
    task = node.submit("slow", seconds=4, timeout_ms=60_000)
    node.started(task)
    wait_until(
        lambda: [held.task_id for held in node.engines()[0].report.tasks] == [task],
        what="the task in the beat",
    )
    command_id = send(node, "drain", reason="new driver")
    drain = wait_until(lambda: drain_of(node), what="the drain in the beat")
    assert (drain.engines_left, drain.in_flight) == (1, 1)
    assert drain.ends_in_s is not None and 0 < drain.ends_in_s <= 10, "the grace is shorter than the task's deadline"
    assert (status(node, command_id).state, status(node, command_id).message[:9]) == ("taken", "draining:")
    assert node.result(task)
    node.wait_state(EngineState.STOPPED)
    assert not alive(engine.info["pid"])
    wait_until(lambda: status(node, command_id).state is CommandState.DONE, what="the drain done")
    assert run(node, "drain") == "drained: every engine has stopped"
    assert state(node) == (NodeState.DRAINING, "drained by ada: new driver")
    node.stop()
    node.start()
    node.wait_state(EngineState.STOPPED)
    assert status(node, command_id).state is CommandState.DONE, "its reply stays"
    assert run(node, "resume")
    node.ready()
    assert state(node)[0] is NodeState.ACTIVE


def test_a_cordoned_node_keeps_its_tasks_and_claims_nothing_more(node: Node) -> None:
    node.engine(capacity=2)
    node.start()
    node.ready()
    running = node.submit("slow", seconds=3)
    node.started(running)
    assert run(node, "cordon")
    wait_until(lambda: state(node)[0] is NodeState.CORDONED, what="the node cordoned")
    waiting = node.waiting_task()
    assert node.result(running)
    assert node.events(waiting, EventKind.TASK_STARTED) == []
    assert run(node, "uncordon")
    assert node.result(waiting)


def test_scale_and_restart_change_only_the_named_engine(node: Node) -> None:
    node.engine("one")
    node.engine("two")
    node.start()
    before = {engine.info["slot"]: engine.info["pid"] for engine in node.ready(2)}
    assert run(node, "scale", engine="one", replicas=2) == "one: 2"
    after = {engine.info["slot"]: engine.info["pid"] for engine in node.ready(3)}
    assert before.items() <= after.items()
    assert run(node, "scale", engine="one", replicas=2) == "one: 2"
    assert run(node, "rolling_restart", engine="one") == "2 of 2 ready again"
    rolled = wait_until(lambda: _all_new(node, after, ["one.0", "one.1"]), what="both restarted")
    assert rolled["two.0"] == before["two.0"]
    assert run(node, "restart", engine="two") == "1 of 1 ready again"
    wait_until(lambda: _all_new(node, rolled, ["two.0"]), what="two restarted")
    assert run(node, "scale", engine="one", replicas=1) == "one: 1"
    left = {engine.info["slot"] for engine in node.ready(2)}
    assert left == {"one.0", "two.0"}


def test_scaling_down_and_up_again_is_done_when_the_processes_are_ready(node: Node) -> None:
    node.engine(stop_grace=5)
    node.start()
    [before] = node.ready()
    task = node.submit("slow", seconds=1)
    node.started(task)
    away, back = (send(node, "scale", engine="fix", replicas=count) for count in (0, 1))
    wait_until(lambda: status(node, back).ended, what="the scaling back")
    assert (status(node, away).state, status(node, away).message) == ("failed", "scaled to 1 meanwhile")
    assert (status(node, back).state, status(node, back).message) == ("done", "fix: 1")
    assert node.result(task)
    assert node.ready()[0].engine_id != before.engine_id


def _all_new(node: Node, before: dict[str, int], slots: list[str]) -> dict[str, int]:
    now = {e.info["slot"]: e.info["pid"] for e in node.engines() if e.state is EngineState.READY}
    return now if all(now.get(slot, before[slot]) != before[slot] for slot in slots) else {}


def test_an_impossible_command_is_refused_with_a_reason(node: Node) -> None:
    node.engine()
    node.start()
    node.ready()
    for name, arguments, why in (
        ("dance", {}, "unknown command 'dance'"),
        ("restart", {"engine": "missing"}, "no engine 'missing'"),
        ("restart", {}, "needs 'engine'"),
        ("scale", {"engine": "fix", "replicas": "many"}, "must be a number"),
        ("release_gpu", {"gpu": "GPU-a"}, "not quarantined"),
        ("tail_logs", {"engine": "fix", "lines": "all"}, "must be a number"),
        ("tail_logs", {"engine": "../../engines.0"}, "no log of it"),
    ):
        assert why in refused(node, name, **arguments)


def test_a_restart_of_an_engine_that_cannot_start_fails_with_the_reason(node: Node) -> None:
    broken = node.folder / "broken"
    node.engine(command=["sh", "-c", f"test -e {broken} && exit 78; exec {sys.executable} {FIXTURE}"])
    node.start()
    [engine] = node.ready()
    broken.touch()
    answer = refused(node, "restart", engine="fix")
    assert answer.startswith("fix.0 is fatal: exit code 78")
    [exits] = wait_until(lambda: [each.report.last_exits for each in node.engines()])
    assert [(each.kind, each.code) for each in exits] == [("stopped", 0), ("config", 78)]
    assert exits[0].engine_id == engine.engine_id


def test_a_pending_command_of_a_killed_supervisor_is_done_by_the_next(node: Node) -> None:
    node.engine(stop_grace=20)
    supervisor = node.start()
    node.ready()
    node.started(node.submit("slow", seconds=30))
    command_id = send(node, "drain")
    wait_until(lambda: status(node, command_id).state is CommandState.TAKEN, what="the drain taken")
    supervisor.send(signal.SIGKILL)
    supervisor.wait()
    node.start()
    wait_until(lambda: status(node, command_id).state is CommandState.DONE, what="the drain done")


def test_logs_through_redis_last_lines_new_lines_and_those_of_an_ended_process(node: Node) -> None:
    node.engine()
    node.start()
    [first] = node.ready()
    logs = node.broker.logs(node.name)
    before = int(time.time() * 1000)
    tail = logs.tail("fix.0")
    assert tail.lines[0].text == f"--- {first.engine_id} starts"
    follower = logs.follow("fix.0")
    seen: list[str] = []

    def shown(text: str) -> bool:
        seen.extend(line.text for line in follower.read())
        return any(text in each for each in seen)

    wait_until(lambda: shown("starts"), what="the tail")
    node.result(node.submit("spam", mb=1))
    wait_until(lambda: shown("x" * 99), what="what it writes")
    run(node, "restart", engine="fix")
    [second] = node.ready()
    wait_until(lambda: shown(f"{second.engine_id} starts"), what="the next process")
    assert sum(text == f"--- {first.engine_id} starts" for text in seen) == 1
    gone = [line.text for line in logs.tail(first.engine_id, since_ms=before).lines]
    assert any("x" * 99 in text for text in gone)
    assert not any(second.engine_id in text for text in gone)
    assert logs.tail("fix.0", until_ms=1).lines == []


def test_the_lines_that_hold_a_text_are_found_behind_more_lines_than_a_tail_has(node: Node) -> None:
    node.engine()
    node.start()
    node.ready()
    node.result(node.submit("say", text="needle one"))
    node.result(node.submit("spam", mb=1))
    node.result(node.submit("say", text="needle two"))
    logs = node.broker.logs(node.name)
    wait_until(
        lambda: len(logs.tail("fix.0", lines=100).lines) == 100, what="the relay has stored what the engine wrote"
    )
    found = [line.text for line in logs.tail("fix.0", lines=100, containing="needle").lines]
    assert [text[-10:] for text in found] == ["needle one", "needle two"]
    assert [line.text[-3:] for line in logs.tail("fix.0", lines=1, containing="needle").lines] == ["two"]

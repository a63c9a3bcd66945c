"""Decisions about the node: its cordon, and the end of a drain."""

from msgspec.structs import replace

from dalston_queue.broker.nodes.reports import RunningTask
from supervisor.policy import lifecycle, node
from supervisor.policy.lifecycle import Life
from supervisor.policy.node import Leaving, drain_report
from tests.supervisor.policy.test_lifecycle import CRASH, ready


def test_a_drain_ends_with_the_last_deadline_or_with_the_grace_if_that_is_sooner() -> None:
    life = lifecycle.stopping(ready(0.0), "drained", 30.0, 0.0)
    task = RunningTask(task_id="a", deadline_ms=1_000_000 + 12_000)
    endless = RunningTask(task_id="b")
    for tasks, running, ends in (
        ((), 0, 0.0),
        ((task,), 1, 12.0),
        ((task, endless), 2, 20.0),
        ((task,), 2, 20.0),  # the report of one of them is missing
        ((replace(task, deadline_ms=9_000_000),), 1, 20.0),
    ):
        report = drain_report([Leaving(life, tasks, running)], 10.0, 1_000_000)
        assert (report.engines_left, report.in_flight, report.ends_in_s) == (1, running, ends)
    assert drain_report([], 10.0, 1_000_000).ends_in_s == 0.0


def test_a_node_on_which_every_engine_crash_loops_is_cordoned_until_an_engine_stays_up() -> None:
    looping, fine = Life(), ready(0.0)
    for number in range(5):
        looping = lifecycle.exited(lifecycle.spawned(looping, number), CRASH, number, 0.5)
    assert node.cordon_reason([looping, fine]) == ""
    assert node.cordon_reason([]) == ""
    why = node.cordon_reason([looping, looping])
    assert why == "every engine crash-loops: 10 failures of 2 engines; the last: signal 9"
    back = lifecycle.noticed(lifecycle.spawned(looping, 100.0), {"READY": "1"}, 100.0)
    assert not node.recovered([looping, back], 159.0)
    assert node.recovered([looping, back], 160.0)

"""SIGSTOP of an engine in the middle of its task: ended, replaced, the task rerun, a late result refused."""

import os
import signal
import time
from functools import partial
from pathlib import Path

from bench.harness.figures import Section, Target, percentile
from bench.recoveries.node import Fleet, wait_for
from dalston_queue.broker.protocol.types import EventKind

ENGINES = 8
WATCHDOG = 2.0


def engine_stopped(redis_url: str, stops: int) -> Section:
    fleet = Fleet(redis_url)
    try:
        node = fleet.node("bench")
        node.sleepers(ENGINES, watchdog=WATCHDOG)
        node.start()
        node.ready(ENGINES)
        times, completed = [], 0
        for _ in range(stops):
            task = fleet.submit("sleep", seconds=4)
            _, first = fleet.started(task)
            pid = node.pid_of(first.engine_id)
            os.kill(pid, signal.SIGSTOP)
            stopped_at = time.monotonic()
            again_at, _ = fleet.started(task, times=2)
            times.append(again_at - stopped_at)
            wait_for(partial(fleet.events, task, EventKind.TASK_COMPLETED), 20, "the rerun's result")
            wait_for(partial(_is_gone, pid), 20, "the end of the stopped engine")
            completed += len(fleet.events(task, EventKind.TASK_COMPLETED))
    finally:
        fleet.close()
    head = ["stops", "median", "max", "results per task"]
    section = Section(f"SIGSTOP of an engine mid-task, watchdog {WATCHDOG:g} s -> its task runs on another", head)
    median = percentile(times, 0.5)
    section.rows.append([str(stops), f"{median:.2f} s", f"{max(times):.2f} s", f"{completed / stops:g}"])
    section.targets += [
        Target(f"within 2 x watchdog ({2 * WATCHDOG:g} s)", max(times) < 2 * WATCHDOG),
        Target("no second result", completed == stops),
    ]
    return section


def _is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()

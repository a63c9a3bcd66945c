"""kill -9 of an engine in the middle of its task: how long until the task runs on another idle engine."""

import os
import signal
import time

from bench.harness.figures import Section, Target, percentile
from bench.recoveries.node import Fleet

ENGINES = 12  # so that no slot fails five times in ten minutes, which would be a crash loop


def engine_killed(redis_url: str, kills: int) -> Section:
    fleet = Fleet(redis_url)
    try:
        node = fleet.node("bench")
        node.sleepers(ENGINES)
        node.start()
        node.ready(ENGINES)
        times = []
        for _ in range(kills):
            task = fleet.submit("sleep", seconds=1.0)
            _, first = fleet.started(task)
            pid = node.pid_of(first.engine_id)
            killed_at = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            again_at, again = fleet.started(task, times=2)
            if again.engine_id == first.engine_id:
                raise AssertionError("it ran on the dead engine")
            times.append(again_at - killed_at)
    finally:
        fleet.close()
    median, p99 = percentile(times, 0.5), percentile(times, 0.99)
    section = Section("kill -9 of an engine mid-task -> its task runs on another", ["kills", "median", "p99", "max"])
    section.rows.append([str(kills), f"{median * 1000:.0f} ms", f"{p99 * 1000:.0f} ms", f"{max(times) * 1000:.0f} ms"])
    section.targets += [Target("median under 0.5 s", median < 0.5), Target("p99 under 2 s", p99 < 2.0)]
    return section

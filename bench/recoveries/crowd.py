"""Fifty engines under one supervisor: its own cost when idle, and its heartbeats while twenty of them crash-loop."""

import time

import psutil

from bench.harness.environment import ROOT
from bench.harness.figures import Section, Target
from bench.recoveries.node import LIGHT, Fleet, Node
from dalston_queue.broker.protocol.types import EngineState

HEARTBEAT = 5.0


def crowd(redis_url: str, seconds: float) -> Section:
    section = Section("fifty engines on one supervisor", ["", "cpu of a core", "memory", "longest gap between beats"])
    cpu, memory, gap = _measure(redis_url, seconds, good=50, bad=0)
    section.rows.append(["50 idle", f"{cpu:.1f} %", f"{memory:.0f} MiB", f"{gap:.2f} s"])
    section.targets += [Target("idle: under 5 % of a core", cpu < 5), Target("under 120 MiB", memory < 120)]
    cpu, memory, gap = _measure(redis_url, seconds, good=30, bad=20)
    section.rows.append(["30 idle, 20 crash-looping", f"{cpu:.1f} %", f"{memory:.0f} MiB", f"{gap:.2f} s"])
    section.targets.append(Target(f"no beat of the 30 later than {HEARTBEAT:g} s + 1 s", gap < HEARTBEAT + 1))
    return section


def _measure(redis_url: str, seconds: float, good: int, bad: int) -> tuple[float, float, float]:
    fleet = Fleet(redis_url)
    try:
        node = fleet.node("crowd")
        node.engine("good", ["python", "-S", "-E", str(LIGHT), "idle"], replicas=good)
        if bad:
            node.engine("bad", ["python", "-S", "-E", str(LIGHT), "crash"], replicas=bad)
        node.start()
        node.ready(good)
        if not bad:
            time.sleep(3)  # the start is over: idle means idle
        before = {process: _cpu_seconds(process) for process in _supervisor(node)}
        began = time.monotonic()
        gap = _watch_beats(node, seconds)
        # an engine between fork and exec looks like the supervisor's own process for a moment
        processes = [process for process in before if process.is_running()]
        spent = sum(_cpu_seconds(process) - before[process] for process in processes)
        cpu = spent / (time.monotonic() - began) * 100
        return cpu, sum(process.memory_info().rss for process in processes) / (1 << 20), gap
    finally:
        fleet.close()


def _supervisor(node: Node) -> list[psutil.Process]:
    """With the processes that work for it, such as the relay of the logs."""
    process = psutil.Process(node.process.pid if node.process else 0)
    return [process, *(child for child in process.children() if _works_for_it(child))]


def _works_for_it(child: psutil.Process) -> bool:
    own = str(ROOT / "supervisor")
    try:
        return any(own in word for word in child.cmdline())
    except psutil.Error:  # an engine that has just crashed
        return False


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _watch_beats(node: Node, seconds: float) -> float:
    """The longest time that any ready engine's beat counter stood still."""
    moved: dict[str, tuple[int, float]] = {}
    longest, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        now = time.monotonic()
        for engine in node.engines(EngineState.READY):
            beat, at = moved.get(engine.engine_id, (-1, now))
            if engine.beat != beat:
                longest = max(longest, now - at)
                moved[engine.engine_id] = (engine.beat, now)
        time.sleep(0.25)
    return longest

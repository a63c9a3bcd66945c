"""Recovery: killed and stopped engines, lost nodes, fifty engines at once, and a log that is written at full speed."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import psutil

from bench.harness.figures import Rounds, Section, Target, percentile
from bench.harness.fleet import LIGHT_ENGINE, Fleet, Node, wait_for
from bench.harness.processes import ROOT
from bench.harness.run import Command, Run
from bench.harness.servers import private_postgres, private_valkey
from dalston_queue.broker.protocol.record import Record
from dalston_queue.broker.protocol.types import EngineState, EventKind

HEARTBEAT_S, WATCHDOG_S = 5.0, 2.0
MEGABYTES = 200
LOGS = {"max_mib": 4, "keep": 2}
LOG_LIMIT = LOGS["max_mib"] * (LOGS["keep"] + 1) << 20
BLOCKS = 4096 * (LOGS["keep"] + 1)  # a file takes whole blocks


def killed(redis_url: str, kills: int) -> Section:
    """kill -9 of an engine in the middle of its task: how long until the task runs on another idle engine."""
    engines = 12  # so that no slot fails five times in ten minutes, which would be a crash loop
    times = []
    with Fleet(redis_url) as fleet:
        node = fleet.node("bench")
        node.sleepers(engines)
        node.start()
        node.ready(engines)
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
    median, p99 = percentile(times, 0.5), percentile(times, 0.99)
    return Section(
        "kill -9 of an engine mid-task -> its task runs on another",
        ["kills", "median", "p99", "max"],
        [[str(kills), f"{median * 1000:.0f} ms", f"{p99 * 1000:.0f} ms", f"{max(times) * 1000:.0f} ms"]],
        [Target("median under 0.5 s", median < 0.5), Target("p99 under 2 s", p99 < 2.0)],
    )


def stopped(redis_url: str, stops: int) -> Section:
    """SIGSTOP of an engine in the middle of its task: killed, replaced, the task run again, a late result refused."""
    times, completed = [], 0
    with Fleet(redis_url) as fleet:
        node = fleet.node("bench")
        node.sleepers(8, watchdog=WATCHDOG_S)
        node.start()
        node.ready(8)
        for _ in range(stops):
            task = fleet.submit("sleep", seconds=4)
            _, first = fleet.started(task)
            pid = node.pid_of(first.engine_id)
            os.kill(pid, signal.SIGSTOP)
            stopped_at = time.monotonic()
            again_at, _ = fleet.started(task, times=2)
            times.append(again_at - stopped_at)
            wait_for(partial(fleet.events, task, EventKind.TASK_COMPLETED), 20, "the second delivery's result")
            wait_for(partial(_is_gone, pid), 20, "the end of the stopped engine")
            completed += len(fleet.events(task, EventKind.TASK_COMPLETED))
    median = percentile(times, 0.5)
    return Section(
        f"SIGSTOP of an engine mid-task, watchdog {WATCHDOG_S:g} s -> its task runs on another",
        ["stops", "median", "max", "results per task"],
        [[str(stops), f"{median:.2f} s", f"{max(times):.2f} s", f"{completed / stops:g}"]],
        [
            Target(f"within 2 x watchdog ({2 * WATCHDOG_S:g} s)", max(times) < 2 * WATCHDOG_S),
            Target("no second result", completed == stops),
        ],
    )


def _is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def gone(redis_url: str, rounds: int, victims: int) -> Section:
    """A whole node gone (supervisor and engines killed at once): how long until its tasks run on another node."""
    with private_postgres(fast=True) as postgres:
        times = [seconds for _ in range(rounds) for seconds in _lose_nodes(redis_url, postgres.url, victims)]
    return Section(
        "a whole node gone -> its task runs on another node",
        ["nodes", "median", "max"],
        [[str(len(times)), f"{percentile(times, 0.5):.1f} s", f"{max(times):.1f} s"]],
        [Target("under 25 s", max(times) < 25)],
    )


def _lose_nodes(redis_url: str, database_url: str, victims: int) -> list[float]:
    """All victims at once, each with one task; one node with room for all of them survives. An orchestrator judges."""
    with Fleet(redis_url) as fleet, contextlib.ExitStack() as stack:
        env = {**os.environ, "DALSTON_DEV": "1", "DATABASE_URL": database_url, "REDIS_URL": redis_url}
        env["DALSTON_REDIS_PREFIX"] = fleet.prefix
        subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=env, check=True)
        argv = [sys.executable, "manage.py", "runorchestrator"]
        orchestrator = subprocess.Popen(argv, cwd=ROOT, env=env, stderr=subprocess.DEVNULL)
        stack.callback(orchestrator.wait)
        stack.callback(orchestrator.kill)
        doomed = [fleet.node(f"doomed-{number}") for number in range(victims)]
        for node in doomed:
            node.sleepers(1)
            node.start()
        for node in doomed:
            node.ready(1)
        tasks = [fleet.submit("sleep", seconds=60) for _ in doomed]
        owners = {task: _record(fleet, task, "doomed-").owner for task in tasks}
        survivor = fleet.node("survivor")
        survivor.sleepers(1, capacity=victims)
        survivor.start()
        survivor.ready(1)
        killed_at = {}
        for node in doomed:
            killed_at[node.name] = time.time()
            node.kill()
        return [
            _record(fleet, task, "survivor.").claimed_at_ms / 1000 - killed_at[engine.partition(".")[0]]
            for task, engine in owners.items()
        ]


def _record(fleet: Fleet, task: str, prefix: str) -> Record:
    """The record of a task once an engine of these nodes has it. Not by its events: the orchestrator reads those."""

    def found() -> Record | None:
        record = fleet.broker.records("sleep", [task]).get(task)
        return record if record is not None and record.owner.startswith(prefix) else None

    return wait_for(found, 90, f"{task} at {prefix}…")


def crowd(redis_url: str, seconds: float) -> Section:
    """Fifty engines under one supervisor: its cost when they are idle, and its heartbeats while twenty crash-loop."""
    section = Section("fifty engines on one supervisor", ["", "cpu of a core", "memory", "longest gap between beats"])
    cpu, memory, gap = _crowd(redis_url, seconds, good=50, bad=0)
    section.rows.append(["50 idle", f"{cpu:.1f} %", f"{memory:.0f} MiB", f"{gap:.2f} s"])
    section.targets += [Target("idle: under 5 % of a core", cpu < 5), Target("under 120 MiB", memory < 120)]
    cpu, memory, gap = _crowd(redis_url, seconds, good=30, bad=20)
    section.rows.append(["30 idle, 20 crash-looping", f"{cpu:.1f} %", f"{memory:.0f} MiB", f"{gap:.2f} s"])
    section.targets.append(Target(f"no beat of the 30 later than {HEARTBEAT_S:g} s + 1 s", gap < HEARTBEAT_S + 1))
    return section


def _crowd(redis_url: str, seconds: float, good: int, bad: int) -> tuple[float, float, float]:
    with Fleet(redis_url) as fleet:
        node = fleet.node("crowd")
        node.engine("good", [*LIGHT_ENGINE, "idle"], replicas=good)
        if bad:
            node.engine("bad", [*LIGHT_ENGINE, "crash"], replicas=bad)
        node.start()
        node.ready(good)
        if not bad:
            time.sleep(3)  # the start is over: idle means idle
        before = {process: _cpu_seconds(process) for process in _supervisor(node)}
        began = time.monotonic()
        gap = _longest_gap(node, seconds)
        # an engine between fork and exec has the command line of the supervisor
        processes = [process for process in before if process.is_running()]
        spent = sum(_cpu_seconds(process) - before[process] for process in processes)
        cpu = spent / (time.monotonic() - began) * 100
        return cpu, sum(process.memory_info().rss for process in processes) / (1 << 20), gap


def _supervisor(node: Node) -> list[psutil.Process]:
    """With its helper processes, such as the relay of the logs."""
    process = psutil.Process(node.process.pid if node.process else 0)
    return [process, *(child for child in process.children() if _is_helper(child))]


def _is_helper(child: psutil.Process) -> bool:
    own = str(ROOT / "supervisor")
    try:
        return any(own in word for word in child.cmdline())
    except psutil.Error:  # an engine that has just crashed
        return False


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _longest_gap(node: Node, seconds: float) -> float:
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


def spam(redis_url: str, rounds: int) -> Section:
    """An engine that writes 200 MB to its log: as fast as into a plain file, and within its disk limit?"""
    plain, logged = Rounds(smaller_is_better=True), Rounds(smaller_is_better=True)
    peaks, samples = [], 0
    for _ in range(rounds):
        with Fleet(redis_url) as fleet:
            plain.add(_write_plain(fleet.folder / "plain"))
            seconds, peak, count = _write_log(fleet)
        logged.add(seconds)
        peaks.append(peak)
        samples += count
    share, peak_disk = plain.best / logged.best, max(peaks)
    return Section(
        f"{MEGABYTES} MB of output at full speed",
        ["", "best", "spread"],
        [
            ["into a plain file", f"{plain.best:.3f} s", plain.spread],
            ["as an engine", f"{logged.best:.3f} s", logged.spread],
        ],
        [
            Target(f"not slower than half of a plain file (it is {share:.2f} of its speed)", share > 0.5),
            Target(f"disk at most {_mib(peak_disk)}, limit {_mib(LOG_LIMIT)}", peak_disk <= LOG_LIMIT + BLOCKS),
        ],
        [f"Disk is what the log folder has in blocks, sampled {samples} times, each millisecond."],
    )


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.2f} MiB"


def _write_plain(path: Path) -> float:
    with path.open("wb") as output:
        argv = [sys.executable, *LIGHT_ENGINE[1:], "plain", str(MEGABYTES)]
        done = subprocess.run(argv, stdout=output, stderr=subprocess.PIPE, check=True)
    path.unlink()
    return float(done.stderr)


def _write_log(fleet: Fleet) -> tuple[float, int, int]:
    """Seconds, the peak disk usage until a second after the end, and the number of samples."""
    answer = fleet.folder / "seconds"
    node = fleet.node("spam", logs=LOGS)
    node.engine("spam", [*LIGHT_ENGINE, "spam", str(MEGABYTES), str(answer)])
    node.start()
    folder = node.folder / "s" / "logs"
    peak, samples, ends = 0, 0, None
    while ends is None or time.monotonic() < ends:
        peak = max(peak, _disk(folder))
        samples += 1
        if ends is None and answer.exists() and answer.read_text():
            ends = time.monotonic() + 1.0
        time.sleep(0.001)
    return float(answer.read_text()), peak, samples


def _disk(folder: Path) -> int:
    used = 0
    for file in folder.glob("*"):
        with contextlib.suppress(FileNotFoundError):  # rotation removes files meanwhile
            used += file.stat().st_blocks * 512
    return used


def main(arguments: list[str] | None = None) -> int:
    command = Command("recovery", __doc__)
    command.add_list("only", ("killed", "stopped", "gone", "crowd", "spam"), "which parts")
    options = command.parse(arguments)
    small = options.small
    with private_valkey() as server:
        run = Run(f"Valkey {server.version()} with AOF everysec")
        url = server.database(0)
        parts = {
            "killed": lambda: killed(url, 5 if small else 40),
            "stopped": lambda: stopped(url, 2 if small else 12),
            "gone": lambda: gone(url, 1 if small else 3, 2 if small else 10),
            "crowd": lambda: crowd(url, 10 if small else 30),
            "spam": lambda: spam(url, 1 if small else 5),
        }
        for name in options.only:
            run.add(parts[name]())
    run.finish(options.json)
    return 0 if run.kept_all_targets else 1


if __name__ == "__main__":
    raise SystemExit(main())

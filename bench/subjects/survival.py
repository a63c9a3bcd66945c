"""Survival: whether a running task runs again after a SIGKILL of its worker, for all peers at once."""

import contextlib
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import redis

from bench.harness.figures import Section
from bench.harness.processes import PeerError, report, started
from bench.harness.servers import BenchServer
from bench.peers import LOSES_TASKS

RECOVERY_S = 3
"""The recovery window set for the peers; production values are far longer, see DEFAULTS."""

DEFAULTS = {
    "dalston": "about 1 s, by the supervisor",
    "celery": "1 h (visibility timeout)",
    "rq": "240 s (job timeout + 60 s), if it has retries",
    "dramatiq": "60 s + a random sweep",
    "dramatiq_prefetch_100": "60 s + a random sweep",
    "taskiq": "10 min idle (even if it still runs), with the next task",
    "huey": "never",
    "bullmq": "30 s (lock) + up to 30 s (stalled check)",
}
"""When the task comes back with the peer's own settings: from its documentation and code."""

NOT_WAITED_FOR = {"rq", "taskiq", *LOSES_TASKS}
"""Peers without a setting that delivers a killed worker's task again within seconds."""


@dataclass
class Trial:
    peer: str
    mark: Path  # made by the first run of the task
    url: str
    killed_at: float = 0.0
    back_after: float | None = None

    def worker(self, *action: object) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
        probe = f"survival:{self.mark}"
        return started(self.peer, *action, 1, RECOVERY_S, redis_url=self.url, probe=probe)

    def kill(self, first: subprocess.Popen[str]) -> None:
        end = time.monotonic() + 15
        while not self.mark.exists() and time.monotonic() < end and first.poll() is None:
            time.sleep(0.02)
        first.kill()
        first.wait()
        self.killed_at = time.monotonic()

    def result(self, second: subprocess.Popen[str]) -> str:
        if not self.mark.exists():
            return "never started"
        if self.peer in LOSES_TASKS and redis.Redis.from_url(self.url).dbsize() == 0:
            return "lost: nothing is left in Redis"
        if self.back_after is None:
            return "not back in this time; kept by its configuration"
        try:
            report(self.peer, second)
        except PeerError as failed:
            return str(failed)
        return f"ran again after {self.back_after:.1f} s"


def survival(server: BenchServer, peers: list[str], *, timeout_s: float) -> Section:
    server.flush()
    section = Section(
        f"A worker gets SIGKILL while a task runs; recovery windows set to {RECOVERY_S} s where the peer has one",
        ["", "the task", "in production comes back after"],
    )
    with tempfile.TemporaryDirectory(prefix="dalston-bench-") as folder, contextlib.ExitStack() as stack:
        trials = [
            Trial(peer, Path(folder) / peer, server.database(number))
            for number, peer in enumerate(["dalston", *peers], start=1)
        ]
        first = [stack.enter_context(trial.worker("fill-and-work", 1)) for trial in trials]
        for trial, process in zip(trials, first, strict=True):
            trial.kill(process)
        second = [(trial, stack.enter_context(trial.worker("work"))) for trial in trials]
        _wait(second, timeout_s)
        section.rows = [[trial.peer, trial.result(process), DEFAULTS[trial.peer]] for trial, process in second]
    server.flush()
    return section


def _wait(second: list[tuple[Trial, subprocess.Popen[str]]], timeout_s: float) -> None:
    end = time.monotonic() + timeout_s
    waiting = [(trial, process) for trial, process in second if trial.mark.exists()]
    while time.monotonic() < end and any(trial.peer not in NOT_WAITED_FOR for trial, _ in waiting):
        time.sleep(0.05)
        for trial, process in waiting.copy():
            if process.poll() is not None:
                trial.back_after = time.monotonic() - trial.killed_at
                waiting.remove((trial, process))

"""What becomes of a running task when its worker gets SIGKILL, tried on every peer at once (it is mostly waiting)."""

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

RECOVERY_S = 3
"""The window the peers are asked for; production values are far longer, see DEFAULTS."""

DEFAULTS = {
    "dalston": "about 1 s, told by the supervisor",
    "celery": "1 h (visibility timeout)",
    "rq": "240 s (job timeout + 60 s), if it has retries",
    "dramatiq": "60 s + a random sweep",
    "dramatiq_ahead": "60 s + a random sweep",
    "arq": "310 s (job timeout + 10 s)",
    "taskiq": "10 min idle (even if it still runs), with the next task",
    "saq": "its timeout + up to 60 s, if it has retries",
    "streaq": "60 s",
    "huey": "never",
}
"""When the task comes back with the peer's own settings: from its documentation and code. Who is named here and not in
LOSES counts as one that keeps it, even if it is not back while we look."""

LOSES = {"huey"}
"""The task has left Redis when it runs."""

SLOW = {"rq", "taskiq", *LOSES}
"""Not waited for: nothing they let one set brings the task back within seconds."""


@dataclass
class Trial:
    peer: str
    folder: Path
    url: str
    first: subprocess.Popen[str] | None = None
    second: subprocess.Popen[str] | None = None
    killed_at: float = 0.0
    back_after: float | None = None

    @property
    def mark(self) -> Path:
        return self.folder / self.peer


def survival(server: BenchServer, peers: list[str], *, patience_s: float) -> tuple[Section, set[str]]:
    """The table, and the names of those that keep the task."""
    if unknown := set(peers) - DEFAULTS.keys():
        raise SystemExit(f"when does a killed worker's task come back? Say it in {Path(__file__).name}: {unknown}")
    server.flush()
    section = Section(
        f"A worker gets SIGKILL while a task runs; recovery windows set to {RECOVERY_S} s where the peer has one",
        ["", "the task", "in production comes back after"],
    )
    survivors = set()
    with tempfile.TemporaryDirectory(prefix="dalston-bench-") as folder, contextlib.ExitStack() as stack:
        trials = [
            Trial(peer, Path(folder), server.database(number))
            for number, peer in enumerate(["dalston", *peers], start=1)
        ]
        for trial in trials:
            trial.first = stack.enter_context(_worker(trial, "fill-and-work", 1))
        for trial in trials:
            _kill(trial)
        for trial in trials:
            trial.second = stack.enter_context(_worker(trial, "work"))
        _wait(trials, patience_s)
        for trial in trials:
            verdict, survives = _verdict(trial)
            section.rows.append([trial.peer, verdict, DEFAULTS[trial.peer]])
            if survives:
                survivors.add(trial.peer)
    server.flush()
    return section, survivors


def _worker(trial: Trial, *action: object) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    return started(trial.peer, trial.url, *action, 1, RECOVERY_S, probe=f"survival:{trial.mark}")


def _kill(trial: Trial) -> None:
    assert trial.first is not None
    end = time.monotonic() + 15
    while not trial.mark.exists() and time.monotonic() < end and trial.first.poll() is None:
        time.sleep(0.02)
    trial.first.kill()
    trial.first.wait()
    trial.killed_at = time.monotonic()


def _wait(trials: list[Trial], patience_s: float) -> None:
    end = time.monotonic() + patience_s
    waiting = [trial for trial in trials if trial.mark.exists()]
    while time.monotonic() < end and any(trial.peer not in SLOW for trial in waiting):
        time.sleep(0.05)
        for trial in waiting.copy():
            assert trial.second is not None
            if trial.second.poll() is not None:
                trial.back_after = time.monotonic() - trial.killed_at
                waiting.remove(trial)


def _verdict(trial: Trial) -> tuple[str, bool]:
    if not trial.mark.exists():
        return "never started", False
    if trial.peer in LOSES and redis.Redis.from_url(trial.url).dbsize() == 0:
        return "lost: nothing is left in Redis", False
    if trial.back_after is None:
        return "not back in this time; kept, says its configuration", True
    assert trial.second is not None
    try:
        report(trial.peer, trial.second)
    except PeerError as failed:
        return str(failed), False
    return f"ran again after {trial.back_after:.1f} s", True

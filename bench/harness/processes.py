"""Processes of the peers and their environment `.venv.bench`: installed on first use, started, read, always killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from bench.peers import prefetch_of
from bench.peers.bullmq import NPM_PACKAGES, npm_install
from dalston_site.embedded.guarded import guarded

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / ".venv.bench"
LOCK = ROOT / "bench" / "requirements.lock"
REPORT_TIMEOUT_S = 30.0


class PeerError(Exception):
    """A peer's process gave no report. The message has the end of its output."""


@cache
def peer_python() -> str:
    """Python of `.venv.bench`, which is made anew when the lock or BullMQ's version changes."""
    python, stamp = FOLDER / "bin" / "python", FOLDER / "installed"
    wanted = " ".join(NPM_PACKAGES) + "\n" + LOCK.read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"Installing the peers of {LOCK.relative_to(ROOT)} and BullMQ into {FOLDER.name}, for the bench only.")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(FOLDER)], check=True)
        install = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        # The lock names everything. An older pip would resolve psycopg[pool] itself, and choose a newer psycopg.
        subprocess.run([*install, "--no-deps", "--require-hashes", "-r", str(LOCK)], check=True)
        npm_install(FOLDER)
        stamp.write_text(wanted)
    return str(python)


def python_of(peer: str) -> str:
    """Dalston runs in the product's own environment, every other peer in the bench's."""
    return sys.executable if peer.startswith("dalston") else peer_python()


@contextmanager
def started(
    peer: str, *action: object, redis_url: str = "", probe: str = "", quiet: bool = False, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """`python -m bench.peers` for this peer; always killed at the end. `quiet`: its errors are not read, so they
    must not fill a pipe."""
    argv = [python_of(peer), "-m", "bench.peers", peer, *(str(word) for word in action)]
    # In the environment, because every user of the machine can read a command line.
    environment |= {"BENCH_REDIS_URL": redis_url, "BENCH_PROBE": probe, "BENCH_PREFETCH": prefetch_of(peer)}
    process = subprocess.Popen(
        guarded(argv, dies_with=signal.SIGKILL),
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "ignore", **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if quiet else subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def report(peer: str, process: subprocess.Popen[str], timeout: float = REPORT_TIMEOUT_S) -> dict[str, Any]:
    """The last JSON line of its output, once it has ended."""
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise PeerError(f"{peer} gave no report within {timeout:.0f} s") from None
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            return dict(json.loads(line))
    raise PeerError(f"{peer} ended with {process.returncode} and no report:\n{errors[-2000:]}")


def cpu_seconds(pids: Iterable[int]) -> float:
    """Of these processes and all their descendants, also of those that have ended and been waited for."""
    total = 0.0
    for pid in pids:
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system + times.children_user + times.children_system
    return total


@contextmanager
def apart(server: int) -> Iterator[None]:
    """The server on the first core, this process and what it starts on the others, as if on another machine. Left to
    the kernel, both are on one core or on two from run to run, and a round trip takes 30 or 100 us. Does nothing on a
    machine of one core, or that can't."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) < 2:
        yield
        return
    _pin(server, cores[:1])
    os.sched_setaffinity(0, cores[1:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        _pin(server, cores)


def _pin(pid: int, cores: list[int]) -> None:
    for thread in psutil.Process(pid).threads():
        os.sched_setaffinity(thread.id, cores)

"""Processes of a peer: started in its environment, read, and never left behind."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.harness.environment import ROOT, python_of
from dalston_site.embedded.guarded import guarded

PATIENCE_S = 30.0


class PeerError(Exception):
    """A peer's process gave no report. The message carries the end of what it wrote."""


@contextmanager
def started(peer: str, url: str, *arguments: object, probe: str = "") -> Iterator[subprocess.Popen[str]]:
    """`bench.peers.run` for this peer; killed at the end, whatever happens."""
    argv = [python_of(peer), "-m", "bench.peers.run", peer, *(str(argument) for argument in arguments)]
    process = subprocess.Popen(
        guarded(argv, dies_with=signal.SIGKILL),
        cwd=ROOT,
        # In the environment, because everybody on the machine can read a command line.
        env={**os.environ, "BENCH_REDIS_URL": url, "BENCH_PROBE": probe, "PYTHONWARNINGS": "ignore"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def report(peer: str, process: subprocess.Popen[str], timeout: float = PATIENCE_S) -> dict[str, Any]:
    """The last JSON line of its output, once it has ended."""
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise PeerError(f"{peer} gave no report within {timeout:.0f} s") from None
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            return dict(json.loads(line))
    raise PeerError(f"{peer} ended with {process.returncode} and no report:\n{errors[-2000:]}")


def run(peer: str, url: str, *arguments: object, probe: str = "") -> dict[str, Any]:
    with started(peer, url, *arguments, probe=probe) as process:
        return report(peer, process)

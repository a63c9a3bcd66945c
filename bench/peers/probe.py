"""The probe that every peer's no-op task calls: counts, times or blocks, by the environment variable BENCH_PROBE.

    throughput:<warm>:<count>:<seconds>:<pid>
                                          after `warm` tasks, over `count` tasks or `seconds`: report the rate and the
                                          CPU time of this process and of the server with that pid, then exit
    latency:<count>:<path>                the first run makes the file, which the sender waits for; then report `count`
                                          delays between the send and the start, and exit
    survival:<path>                       the first run marks the file and never returns; the second reports, then exits

A report is one JSON line on standard output. The process then ends at once, so that no shutdown is measured.
"""

import itertools
import json
import math
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path


def _report(**fields: object) -> None:
    # Not sys.stdout: a worker may have replaced it by a logger.
    os.write(1, json.dumps(fields).encode() + b"\n")
    os._exit(0)


def _cpu_seconds(server: str) -> float:
    """Of this process and of the server, so far. Other load makes a task slower, but hardly changes its CPU time."""
    fields = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()
    return time.process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _throughput(warm: str, count: str, seconds: str, server: str) -> Callable[[int], None]:
    first, last, limit = int(warm), int(warm) + int(count), float(seconds)
    numbers = itertools.count(1)
    once = threading.Lock()
    clock = time.perf_counter
    start, spent = math.inf, 0.0  # another thread may run the next task before this one has read the clocks

    def ran(_sent_ns: int) -> None:
        nonlocal start, spent
        n = next(numbers)
        if n < first:
            return
        if n == first:
            spent = _cpu_seconds(server)
            start = clock()
        elif n >= last or clock() - start > limit:
            elapsed = clock() - start
            if once.acquire(blocking=False):
                _report(count=n - first, seconds=elapsed, cpu_seconds=_cpu_seconds(server) - spent)

    return ran


def _latency(count: str, path: str) -> Callable[[int], None]:
    wanted = int(count)
    delays: list[int] = []

    def ran(sent_ns: int) -> None:
        now = time.monotonic_ns()  # one clock for all processes of a machine
        if not sent_ns:
            os.close(os.open(path, os.O_CREAT))
            return
        delays.append(now - sent_ns)
        if len(delays) == wanted:
            _report(delays_ns=delays)

    return ran


def _survival(path: str) -> Callable[[int], None]:
    def ran(_sent_ns: int) -> None:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            _report(ran_again=True)
        time.sleep(3600)  # until the SIGKILL

    return ran


_KINDS: dict[str, Callable[..., Callable[[int], None]]] = {
    "throughput": _throughput,
    "latency": _latency,
    "survival": _survival,
}


def _unset(_sent_ns: int) -> None:
    """A process that only sends has no probe."""


def _from_environment() -> Callable[[int], None]:
    kind, _, rest = os.environ.get("BENCH_PROBE", "").partition(":")
    return _KINDS[kind](*rest.split(":")) if kind else _unset


ran = _from_environment()

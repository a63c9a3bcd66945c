"""Peers: the measured queues, one file each, run in a process of its own by `python -m bench.peers` (__main__.py).

A file has `sender` and `work` for `./dev bench broker`, or `prepare`, `submit` and `serve` for `./dev bench pipeline`:
the interfaces of `Peer` and `Pipeline`. NAME_prefetch_N is the file NAME with N tasks claimed beyond those that run.
The task of every peer calls `probe.ran(sent_ns)` (probe.py) and does nothing else. The docstring says how the peer is
configured: for little overhead, and so that a killed worker's task is kept if the peer can do that. A run quotes
its first paragraph, or the one that begins with "In the pipeline".

To add a peer: a file here, its name below, its package in bench/requirements.in and the lock, in subjects/survival.py
when a killed worker's task comes back, and in subjects/throughput.py its ceiling if it is fast.
"""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

OURS = ("dalston", "dalston_engine", "dalston_engine_prefetch_8")
"""Dalston itself, in the product's own environment: the bare broker, and the whole engine as deployed."""

PYTHON_PEERS = ("celery", "rq", "dramatiq", "dramatiq_prefetch_100", "taskiq", "huey")
PEERS = (*PYTHON_PEERS, "bullmq")
"""The other queues, in the order of the tables."""

LOSES_TASKS = {"huey"}
"""Peers that lose a killed worker's task: the task leaves Redis when it starts."""

ONE_AT_A_TIME = {"rq", "dramatiq_prefetch_100", "dalston_engine_prefetch_8"}
"""RQ runs one task at a time in a process; the other two are variants for one thread."""


class Peer(Protocol):
    """Optional: `fill(url, count)` and `send(url, count, ready)`, instead of calls of the sender."""

    def sender(self, url: str) -> Callable[[int], object]:
        """Connect, and return a function that enqueues one task with that argument."""

    def work(self, url: str, capacity: int, recovery_s: int | None) -> None:
        """Run a worker until the probe ends the process. `recovery_s`: after how many seconds a killed worker's
        task should run again, if the peer has such a setting; None: the peer's own default."""


class Pipeline(Protocol):
    """With the servers in DATABASE_URL and REDIS_URL."""

    def prepare(self) -> None:
        """Make the tables."""

    def submit(self, count: int) -> None:
        """Submit so many no-op tasks, as fast as one client can: in batches where there is an API for it."""

    def serve(self) -> None:
        """Be the worker, until killed. With several processes, start the others and be the last."""


def module_of(name: str) -> str:
    return name.partition("_prefetch_")[0]


def prefetch_of(name: str) -> str:
    """As text; empty: the peer's own default."""
    return name.partition("_prefetch_")[2]


def settings_of(name: str, start: str = "") -> str:
    """How a peer is configured, by its docstring. Read, not imported: its package is in another environment."""
    source = (Path(__file__).parent / f"{module_of(name)}.py").read_text()
    paragraphs = (ast.get_docstring(ast.parse(source)) or "").split("\n\n")
    found = next(text for text in paragraphs if text.startswith(start))
    return " ".join(found.removeprefix(start).split())

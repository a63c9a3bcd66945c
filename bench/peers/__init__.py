"""One file per queue that is measured, all with the interface of `Peer`, each run in a process of its own.

Adding a peer is adding a file here and its name to NAMES, its package to bench/requirements.in and the lock, and when
it brings a killed worker's task back to bench/sections/survival.py; if it is faster than all others, how fast to
bench/sections/throughput.py. The task of every peer calls `probe.ran(sent_ns)` and does nothing else. The docstring of
a peer's file says how it is configured: for little overhead; the end of a run quotes its first paragraph.
"""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Protocol


class Peer(Protocol):
    def sender(self, url: str) -> Callable[[int], None]:
        """Connect, and return a function that enqueues one task with that argument."""

    def work(self, url: str, capacity: int, recovery_s: int | None) -> None:
        """Run a worker until the probe ends the process. `recovery_s`: how soon a killed worker's task should
        come back, as near as the peer lets one say it; None means the peer's own default."""


NAMES = ("celery", "rq", "dramatiq", "dramatiq_ahead", "arq", "taskiq", "saq", "streaq", "huey")
"""The other queues, in the order of the tables."""

OURS = ("dalston", "dalston_sdk")
"""Dalston itself, in the product's own environment: the bare broker, and the engine SDK on top of it."""

NINTH = {"dramatiq_ahead"}
"""Beside the eight queues: one of them told to hold many tasks for its one thread, in a form of our own making. See
bench/sections/contest.py for who is measured by it."""

NOT_CONCURRENT = {"rq"}
"""One process runs one task at a time: more is more processes."""


def settings_of(name: str) -> str:
    """Read, not imported: the peer's package is in another environment."""
    source = (Path(__file__).parent / f"{name}.py").read_text()
    documentation = ast.get_docstring(ast.parse(source)) or name
    return " ".join(documentation.partition("\n\n")[0].split())

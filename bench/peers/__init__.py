"""One file per queue that is measured, all with the interface of `Peer`, each run in a process of its own.

Adding a peer is adding a file here (and its package to bench/requirements.in). The task of every peer calls
`probe.ran(sent_ns)` and does nothing else. The docstring of a peer's file says how it is configured: for little
overhead, as its documentation recommends; the tables quote its first paragraph.
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

OURS_AHEAD = "dalston_ahead"
TAKES_AHEAD = {"dramatiq_ahead"}
"""Told to hold a hundred tasks for its one thread, against its default. It keeps them when it is killed. Where one task
runs at a time its rival is the Dalston that takes ahead, too: one task."""

ONE_AT_A_TIME = {"rq", OURS_AHEAD}
"""Not measured with many: more of RQ is more processes, and ahead of 32 one more is no difference."""


def settings_of(name: str) -> str:
    """Read, not imported: the peer's package is in another environment."""
    source = (Path(__file__).parent / f"{name}.py").read_text()
    documentation = ast.get_docstring(ast.parse(source)) or name
    return " ".join(documentation.partition("\n\n")[0].split())

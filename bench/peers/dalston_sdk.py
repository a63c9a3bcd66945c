"""Dalston's engine SDK: the runner on top: worker threads, deadlines, watchdog, beats and the circuit breaker. One at a
time it claims eight with one call when its tasks have been quick for a while, as no-ops are."""

from typing import Any

from bench.peers import probe
from bench.peers.dalston import QUEUE, fill, sender
from dalston_queue.broker import connect
from engines.sdk import Engine, Task
from engines.sdk.identity import identify
from engines.sdk.manifest import Manifest
from engines.sdk.runner import Runner

__all__ = ["fill", "sender", "work"]


class Noop(Engine):
    def run(self, task: Task) -> Any:
        probe.ran(task.parameters["sent_ns"])


def work(url: str, capacity: int, recovery_s: int | None) -> None:  # noqa: ARG001 - the supervisor does that
    manifest = Manifest(id="noop", command=("python",), stage=QUEUE, capacity=capacity)
    Runner(Noop(), manifest, connect(url), identify("noop")).run()

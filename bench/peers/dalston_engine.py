"""Dalston's whole engine on the SDK: worker threads, deadlines, watchdog, heartbeats and circuit breaker on top of the
broker. Prefetch as by default (one task claimed beyond those that run) unless the name says another.

In the pipeline: `manage.py runorchestrator` and one engine of capacity 32 through the SDK; jobs of one task, submitted
in batches of 200; every change of status with its row of history.
"""

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.peers import probe
from bench.peers.dalston import QUEUE, fill, sender
from dalston_site.embedded.guarded import guarded
from engines.sdk import Engine, Task

__all__ = ["fill", "prepare", "sender", "serve", "submit", "work"]


class Noop(Engine):
    def run(self, task: Task) -> Any:
        probe.ran(task.parameters["sent_ns"])


class Numbered(Engine):
    """For the pipeline: returns its parameters."""

    def run(self, task: Task) -> Any:
        return dict(task.parameters)


def work(url: str, capacity: int, recovery_s: int | None) -> None:  # noqa: ARG001 - the supervisor's part
    spec = {"id": "noop", "command": ["python"], "stage": QUEUE, "capacity": capacity}
    if prefetch := os.environ.get("BENCH_PREFETCH"):
        spec["prefetch"] = int(prefetch)
    # A file in memory: the probe ends the process without a chance to remove one.
    manifest = os.memfd_create("engine.yaml")
    os.write(manifest, json.dumps(spec).encode())
    os.environ |= {"REDIS_URL": url, "DALSTON_ENGINE_MANIFEST": f"/proc/self/fd/{manifest}"}
    logging.disable(logging.WARNING)
    Noop().serve()


def prepare() -> None:
    _use_django()
    from django.core.management import call_command

    from dalston_queue.models import Project

    call_command("migrate", verbosity=0)
    Project.objects.create(name="bench")


def submit(count: int) -> None:
    _use_django()
    from dalston_queue.jobs.submit.spec import single_task
    from dalston_queue.jobs.submit.submit import Request, submit_many
    from dalston_queue.models import Project

    project = Project.objects.get(name="bench")
    for begin in range(0, count, 200):
        numbers = range(begin, min(begin + 200, count))
        requests = [Request(single_task("noop", parameters={"number": number})) for number in numbers]
        submit_many(requests, project=project)


def serve() -> None:
    engine = [sys.executable, "-m", "engines.sdk", "run", str(Path(__file__).parent / "engine.yaml")]
    subprocess.Popen(guarded(engine, dies_with=signal.SIGKILL))
    subprocess.run(guarded([sys.executable, "manage.py", "runorchestrator"], dies_with=signal.SIGKILL), check=True)


def _use_django() -> None:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dalston_site.settings")
    django.setup()


if __name__ == "__main__":
    Numbered().serve()

"""The demo engine, with three queues for trying things out.

`echo` returns its parameters, `sleep` sleeps `seconds`, `fail` fails by `how`: raise, reject, retry, crash or hang.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from engines.sdk import Engine, Reject, Retry, Task


class Demo(Engine):
    def run(self, task: Task) -> Any:
        if task.queue == "echo":
            return dict(task.parameters)
        if task.queue == "sleep":
            return sleep(task)
        return fail(task)


def sleep(task: Task) -> dict[str, float]:
    """Sleeps for parameters.seconds, reports its progress twice a second, and stops at once when cancelled."""
    seconds = float(task.parameters.get("seconds", 1.0))
    started = time.monotonic()
    while (slept := time.monotonic() - started) < seconds:
        task.progress(slept / seconds, f"{slept:.1f} of {seconds:.1f} s")
        task.wait(min(0.5, seconds - slept))
        task.check()
    return {"slept": seconds}


def fail(task: Task) -> Any:
    how = task.parameters.get("how", "raise")
    message = str(task.parameters.get("message", "you asked for it"))
    if how == "reject":
        return Reject(message)
    if how == "retry":
        return Retry(message, after=float(task.parameters.get("after", 1.0)))
    if how == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hang":
        while True:
            time.sleep(3600)
    raise RuntimeError(message)


if __name__ == "__main__":
    Demo().serve()

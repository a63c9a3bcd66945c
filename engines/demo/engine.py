"""The demo engine, with five queues for trying things out.

`echo` returns its parameters, `sleep` sleeps `seconds`, `fail` fails by `how`: raise, reject, retry, crash or hang, and
`dummy` pretends to work for a moment. A task in `default` is run by the handler that its task type names. Any other
task type is rejected, unless the node sets DALSTON_DEMO_FALLBACK=1: then `fallback` completes it, so that an
installation without engines of its own has something to show.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from engines.sdk import Engine, Reject, Retry, Task


class Demo(Engine):
    def run(self, task: Task) -> Any:
        if task.queue in HANDLERS:
            return HANDLERS[task.queue](task)
        handler = HANDLERS.get(task.task_type, fallback if _falls_back() else None)
        if handler is None:
            return Reject(f"no handler for {task.task_type!r}: there are {', '.join(HANDLERS)}")
        return handler(task)


def _falls_back() -> bool:
    return os.environ.get("DALSTON_DEMO_FALLBACK", "").lower() in ("1", "true", "yes", "on")


def echo(task: Task) -> dict[str, Any]:
    return dict(task.parameters)


def dummy(task: Task) -> dict[str, Any]:
    """Takes a tenth of a second."""
    task.wait(0.1)
    task.check()
    return {"ok": True, "task_type": task.task_type}


def fallback(task: Task) -> dict[str, Any]:
    return {"handler": "default", "task_type": task.task_type, "parameters": dict(task.parameters)}


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


HANDLERS: dict[str, Callable[[Task], Any]] = {"echo": echo, "sleep": sleep, "fail": fail, "dummy": dummy}


if __name__ == "__main__":
    Demo().serve()

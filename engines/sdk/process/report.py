"""Reports of an engine: running tasks, watchdog and health for its supervisor; its heartbeat when it runs alone."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from dalston_queue.broker.engine.breaker import Breaker, BreakerState
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.nodes.reports import RunningTask
from dalston_queue.broker.protocol.types import EngineState

from ..manifest import Manifest
from ..notify import notify
from ..task import Task
from .identity import Identity

log = logging.getLogger("engine")

SEND_EVERY_S = 1.0
MAX_TASKS = 32  # a datagram is small, and so is a page
RUNNER_TIMEOUT_S = 30.0  # of a runner without tasks: longer than any call to Redis takes


class TaskReport:
    """Running tasks and their progress: for the supervisor after a change, at most once per second, and for the next
    renewal in Redis."""

    def __init__(self, *, enabled: bool, send: Callable[..., bool] = notify) -> None:
        self.enabled = enabled
        self._send = send
        self._changed = False
        self._next_at = 0.0
        self._is_ready = False
        self._progress: dict[str, Task] = {}

    def ready(self, status: str, capabilities: Sequence[str]) -> None:
        """Sends READY=1 until it has arrived: an engine without it counts as loading, and is ended for that."""
        if not self._is_ready:
            able = f"X_DALSTON_CAPABILITIES={','.join(capabilities)}"
            sent = notify("READY=1", f"STATUS={status}", "X_DALSTON_SDK=1", able)
            self._is_ready = sent or "NOTIFY_SOCKET" not in os.environ

    def changed(self) -> None:
        """To be called from any thread when a task started, ended or made progress."""
        self._changed = self.enabled

    def progressed(self, task: Task) -> None:
        """To be called from a worker; assigning a dict item is atomic."""
        self._progress[task.id] = task
        self.changed()

    def ended(self, task: Task) -> None:
        self._progress.pop(task.id, None)
        self.changed()

    def take_progress(self) -> dict[str, Any]:
        """Progress since the last renewal, by task id."""
        taken, self._progress = self._progress, {}
        return {task_id: {"fraction": task.fraction, "message": task.message} for task_id, task in list(taken.items())}

    @property
    def due_at(self) -> float:
        return self._next_at if self._changed else math.inf

    def send(self, running: Iterable[Task], now: float) -> None:
        if not self._changed or now < self._next_at:
            return
        self._changed, self._next_at = False, now + SEND_EVERY_S
        tasks = list(running)
        encoded = msgspec.json.encode(reported(tasks)).decode()
        assignments = (f"X_DALSTON_RUNNING={len(tasks)}", f"X_DALSTON_TASKS={encoded}")
        sent = self._send(*assignments, timeout_s=0.0)  # no wait: the next round tries again
        self._changed = not sent or self._changed


def reported(tasks: Iterable[Task]) -> list[RunningTask]:
    return [
        RunningTask(
            task_id=task.id,
            queue=task.queue,
            attempt=task.attempt,
            started_at_ms=int(task.started_at * 1000),
            deadline_ms=int(task.deadline * 1000) if task.deadline else 0,
            fraction=round(task.fraction, 4),
            message=task.message[:200],
        )
        for task in list(tasks)[:MAX_TASKS]
    ]


class Watchdog:
    """Sends WATCHDOG=1 only while the work makes progress: a thread that beats while CUDA hangs would prove nothing.

    It has a thread of its own because the runner's may wait for Redis, which is no hang. It observes the progress of
    the tasks; code that holds the interpreter's lock for ever stops this thread, too.

    `interval`: the longest pause that the supervisor, or systemd (WATCHDOG_USEC), accepts; None: no watchdog."""

    def __init__(self, interval: float | None, send: Callable[..., bool] = notify) -> None:
        usec = os.environ.get("WATCHDOG_USEC")
        self.interval = interval or (int(usec) / 1e6 if usec else None)
        self.runner_at = time.monotonic()  # when the runner's loop last ran
        self._send = send
        self._last = 0.0

    def start(self, running: Callable[[], Iterable[Task]]) -> None:
        if self.interval is not None:
            threading.Thread(target=self._run, args=(running, self.interval / 4), name="watchdog", daemon=True).start()

    def _run(self, running: Callable[[], Iterable[Task]], period: float) -> None:
        while True:
            self.tick(list(running()), time.monotonic())
            time.sleep(min(period, 5.0))

    def tick(self, running: Iterable[Task], now: float) -> None:
        """Sends WATCHDOG=1 if the task without progress for longest has made some since the last one."""
        idle = now if now - self.runner_at < RUNNER_TIMEOUT_S else self.runner_at
        progress = min((task.progress_at for task in running), default=idle)
        if progress > self._last:
            self._last = now
            self._send("WATCHDOG=1")


class BreakerReport:
    """The state of an engine's circuit breaker, for its supervisor, when it changes."""

    def __init__(self, send: Callable[..., bool] = notify) -> None:
        self._send = send
        self._shown = BreakerState.CLOSED

    def send(self, breaker: Breaker, now: float, status: str) -> None:
        """`status`: shown when the breaker is closed."""
        state = breaker.state(now)
        if state is self._shown:
            return
        self._shown = state
        health = "unhealthy" if breaker.is_open else "healthy"
        if state is not BreakerState.HALF_OPEN:
            log.warning("engine_%s", health, extra={"failures_in_a_row": breaker.in_a_row})
        status = breaker.why(now) if breaker.is_open else status
        self._send(f"X_DALSTON_HEALTH={health}", f"X_DALSTON_BREAKER={state}", f"STATUS={status}")


def heartbeat(
    identity: Identity,
    manifest: Manifest,
    capabilities: Sequence[str],
    breaker: Breaker,
    running: Sequence[Task],
    draining: bool,
) -> EngineBeat:
    """The heartbeat of an engine without a supervisor."""
    state, now = EngineState.DRAINING if draining else EngineState.READY, time.monotonic()
    info: dict[str, Any] = {"version": manifest.version, "running": len(running), "tasks": reported(running)}
    info["alone"] = True
    if breaker.is_open:
        info |= {"breaker": breaker.state(now), "why": breaker.why(now)}
    return EngineBeat(
        engine_id=identity.engine_id,
        state=EngineState.UNHEALTHY if breaker.is_open else state,
        queues=manifest.queues,
        capabilities=tuple(capabilities),
        capacity=manifest.capacity,
        info=info,
    )

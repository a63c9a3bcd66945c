"""Tells the supervisor which tasks are in hand and how far they are: when that changed, and at most once per second."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import msgspec

from dalston_queue.broker.nodes.reports import TaskSaid

from .notify import notify
from .task import Task

EVERY = 1.0
MOST_TASKS = 32  # a datagram is small, and so is a page


class TaskReport:
    def __init__(self, *, enabled: bool, send: Callable[..., bool] = notify) -> None:
        self.enabled = enabled
        self._send = send
        self._changed = False
        self._next_at = 0.0

    def changed(self) -> None:
        """From any thread: a task came, went or moved on."""
        self._changed = self.enabled

    def next_moment(self) -> float:
        return self._next_at if self._changed else math.inf

    def tell(self, running: Iterable[Task], now: float) -> None:
        if not self._changed or now < self._next_at:
            return
        self._changed, self._next_at = False, now + EVERY
        tasks = list(running)
        said = msgspec.json.encode(in_hand(tasks)).decode()
        words = (f"X_DALSTON_RUNNING={len(tasks)}", f"X_DALSTON_TASKS={said}")
        self._changed = not self._send(*words, patience=0.0) or self._changed  # no waiting: the next look tries again


def in_hand(tasks: Iterable[Task]) -> list[TaskSaid]:
    return [
        TaskSaid(
            task_id=task.id,
            queue=task.queue,
            attempt=task.attempt,
            started_at_ms=int(task.started_at * 1000),
            deadline_ms=int(task.deadline * 1000) if task.deadline else 0,
            fraction=round(task.fraction, 4),
            message=task.message[:200],
        )
        for task in list(tasks)[:MOST_TASKS]
    ]

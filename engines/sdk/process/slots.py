"""Slots: the tasks that an engine holds. Up to `capacity` of them run; the rest are prefetched and wait in the buffer.

The runner fills the buffer. A worker whose task succeeded starts the next one from the buffer itself: the runner may be
waiting for Redis. After a failure the runner decides, because its circuit breaker may open. A lock guards the two
collections; nothing in here blocks.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence

from ..task import Task

PREFETCH_WAIT_S = 1.0
"""The longest that a prefetched task waits for a slot. Then the whole buffer is released: another engine may be idle.
A task's timeout counts from its start, but its deadline in Redis from the claim: at most this much earlier."""


class Slots:
    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._lock = threading.Lock()
        self._running: dict[Task, None] = {}
        self._buffer: dict[Task, float] = {}  # since when each waits, oldest first

    def put(self, task: Task) -> None:
        """Puts a claimed task into the buffer; start_next() starts it as soon as a slot is free."""
        with self._lock:
            self._buffer[task] = time.monotonic()

    def start_next(self) -> Task | None:
        """Starts the oldest task of the buffer; None if there is none, or no free slot."""
        with self._lock:
            if not self._buffer or len(self._running) >= self.capacity:
                return None
            task = next(iter(self._buffer))
            del self._buffer[task]
            self._running[task] = None
            task.begin()
            return task

    def finish(self, task: Task, *, succeeded: bool) -> Task | None:
        """Frees the slot of a task; after a success, starts the next task in it."""
        with self._lock:
            self._running.pop(task, None)
        return self.start_next() if succeeded else None

    def remove(self, task: Task) -> bool:
        """Takes a task out of the buffer. False if it is not there, for instance because it has started."""
        with self._lock:
            return self._buffer.pop(task, None) is not None

    def clear(self) -> list[Task]:
        """Empties the buffer."""
        with self._lock:
            tasks = list(self._buffer)
            self._buffer.clear()
            return tasks

    @property
    def running(self) -> Sequence[Task]:
        with self._lock:
            return list(self._running)

    @property
    def buffered(self) -> Sequence[Task]:
        with self._lock:
            return list(self._buffer)

    @property
    def startable(self) -> int:
        """How many tasks of the buffer have a slot to start in."""
        with self._lock:
            return min(len(self._buffer), self.capacity - len(self._running))

    def room(self, prefetch: int = 0) -> int:
        """How many tasks may be claimed: for the free slots, and for the buffer up to `prefetch`."""
        with self._lock:
            return max(0, self.capacity + prefetch - len(self._running) - len(self._buffer))

    @property
    def release_at(self) -> float:
        """When the buffer has to be released, by the monotonic clock."""
        with self._lock:
            return next(iter(self._buffer.values()), math.inf) + PREFETCH_WAIT_S

    @property
    def next_deadline(self) -> float:
        return min((task.ends_at for task in self.running if not task.late), default=math.inf)

    def overdue(self, now: float) -> list[Task]:
        """The running tasks whose deadline has passed."""
        return [task for task in self.running if now >= task.ends_at and not task.lost]

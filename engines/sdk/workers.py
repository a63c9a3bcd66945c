"""Where tasks run: `capacity` threads for a sync engine, one event loop for an async one.

All of them are daemon threads: a hung one holds up no exit.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol

from .engine import Engine, attempt, attempt_async, is_async
from .outcomes import Outcome
from .task import Task

Finished = Callable[[Task, Outcome], None]


class Workers(Protocol):
    def start(self, task: Task) -> None: ...

    def cancel(self, task: Task) -> None: ...

    def call(self, method: Callable[[], Any]) -> Any:
        """Runs `load` or `close` where the tasks run, and waits for it."""


def make_workers(engine: Engine, capacity: int, finished: Finished) -> Workers:
    return LoopWorkers(engine, finished) if is_async(engine) else ThreadWorkers(engine, capacity, finished)


class ThreadWorkers:
    def __init__(self, engine: Engine, capacity: int, finished: Finished) -> None:
        self._engine = engine
        self._finished = finished
        self._inbox: SimpleQueue[Task] = SimpleQueue()
        for number in range(capacity):
            threading.Thread(target=self._work, name=f"task-{number}", daemon=True).start()

    def start(self, task: Task) -> None:
        self._inbox.put(task)

    def cancel(self, task: Task) -> None:
        task.cancel_event.set()

    def call(self, method: Callable[[], Any]) -> Any:
        value = method()
        return asyncio.run(_await(value)) if inspect.isawaitable(value) else value

    def _work(self) -> None:
        while True:
            task = self._inbox.get()
            self._finished(task, attempt(self._engine, task))


class LoopWorkers:
    """One loop for load, all tasks and close: what `load` opened belongs to it."""

    def __init__(self, engine: Engine, finished: Finished) -> None:
        self._engine = engine
        self._finished = finished
        self._running: dict[int, asyncio.Task[None]] = {}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="tasks", daemon=True).start()

    def start(self, task: Task) -> None:
        self._loop.call_soon_threadsafe(self._begin, task)

    def cancel(self, task: Task) -> None:
        task.cancel_event.set()
        self._loop.call_soon_threadsafe(self._cancel, task)

    def call(self, method: Callable[[], Any]) -> Any:
        async def called() -> Any:
            value = method()
            return await value if inspect.isawaitable(value) else value

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result()

    def _begin(self, task: Task) -> None:
        self._running[id(task)] = self._loop.create_task(self._run(task))

    def _cancel(self, task: Task) -> None:
        if running := self._running.get(id(task)):
            running.cancel()

    async def _run(self, task: Task) -> None:
        try:
            outcome = await attempt_async(self._engine, task)
        finally:
            self._running.pop(id(task), None)
        self._finished(task, outcome)


async def _await(value: Any) -> Any:
    return await value

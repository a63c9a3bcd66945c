"""The threads of an engine: workers that run tasks, and a waiter that sleeps at Redis until a task may be waiting.

A sync engine has `capacity` worker threads, an async one an event loop in one thread. Workers take tasks from the slots
and report their outcomes. Only the runner claims and settles. All threads are daemons: a hung one holds up no exit.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol

from dalston_queue.broker import Consumer

from ..engine import Engine, attempt, attempt_async, is_async, put_away
from ..outcomes import Done, Outcome
from ..task import Task
from .slots import Slots

log = logging.getLogger("engine")
Report = Callable[[Task, Outcome], None]


class Workers(Protocol):
    def start(self) -> None:
        """Wakes free workers for the tasks in the slots' buffer."""

    def cancel(self, task: Task) -> None: ...

    def call(self, method: Callable[[], Any]) -> Any:
        """Runs `load` or `close` in the loop that runs the tasks, and waits for it."""


def make_workers(engine: Engine, slots: Slots, report: Report) -> Workers:
    return LoopWorkers(engine, slots, report) if is_async(engine) else ThreadWorkers(engine, slots, report)


class ThreadWorkers:
    def __init__(self, engine: Engine, slots: Slots, report: Report) -> None:
        self._engine, self._slots, self._report = engine, slots, report
        self._permits: SimpleQueue[None] = SimpleQueue()  # one too many only wakes a worker for an empty buffer
        for number in range(slots.capacity):
            threading.Thread(target=self._work, name=f"task-{number}", daemon=True).start()

    def start(self) -> None:
        for _ in range(self._slots.startable):
            self._permits.put(None)

    def cancel(self, task: Task) -> None:
        task.cancel_event.set()

    def call(self, method: Callable[[], Any]) -> Any:
        value = method()
        return asyncio.run(_await(value)) if inspect.isawaitable(value) else value

    def _work(self) -> None:
        while True:
            self._permits.get()
            task = self._slots.start_next()
            while task is not None:
                outcome = put_away(attempt(self._engine, task), task)
                # The next task first: the runner, woken by the report, must see its deadline.
                ended, task = task, self._slots.finish(task, succeeded=isinstance(outcome, Done))
                self._report(ended, outcome)


class LoopWorkers:
    """One loop for load, all tasks and close: what `load` opened belongs to that loop."""

    def __init__(self, engine: Engine, slots: Slots, report: Report) -> None:
        self._engine, self._slots, self._report = engine, slots, report
        self._running: dict[Task, asyncio.Task[None]] = {}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="tasks", daemon=True).start()

    def start(self) -> None:
        if self._slots.startable:
            self._loop.call_soon_threadsafe(self._start)

    def cancel(self, task: Task) -> None:
        task.cancel_event.set()
        self._loop.call_soon_threadsafe(self._loop.call_soon, self._cancel, task)

    def call(self, method: Callable[[], Any]) -> Any:
        async def called() -> Any:
            value = method()
            return await value if inspect.isawaitable(value) else value

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result()

    def _start(self) -> None:
        while (task := self._slots.start_next()) is not None:
            self._running[task] = self._loop.create_task(self._run(task))

    def _cancel(self, task: Task) -> None:
        """Called a round after it was asked for: a coroutine that is cancelled before its first step has no outcome."""
        if running := self._running.get(task):
            running.cancel()

    async def _run(self, task: Task) -> None:
        try:
            outcome = await attempt_async(self._engine, task)
        finally:
            self._running.pop(task, None)  # from here on a cancel comes too late, and would lose the outcome
        outcome = await asyncio.to_thread(put_away, outcome, task)
        following = self._slots.finish(task, succeeded=isinstance(outcome, Done))
        if following is not None:
            self._running[following] = self._loop.create_task(self._run(following))
        self._report(task, outcome)


class Waiter:
    """Armed by the runner when it has free slots; wakes the runner once, then waits until it is armed again."""

    def __init__(self, consumer: Consumer, wake: Callable[[], None]) -> None:
        self._consumer = consumer
        self._wake = wake
        self._armed = threading.Event()
        self._stopping = False
        threading.Thread(target=self._run, name="waiter", daemon=True).start()

    def arm(self) -> None:
        self._armed.set()

    def stop(self) -> None:
        """To be called before the consumer is closed: errors are expected from then on."""
        self._stopping = True

    @property
    def armed(self) -> bool:
        return self._armed.is_set()

    def _run(self) -> None:
        while True:
            self._armed.wait()
            try:
                self._consumer.wait(1.0)
            except Exception:  # without its waiter an engine would never wake: log it and try again
                if not self._stopping:
                    log.exception("waiting for work failed")
                time.sleep(1.0)
            self._armed.clear()
            self._wake()


async def _await(value: Any) -> Any:
    return await value

"""Engines as authors write them: a class with `load`, `run`, `close`, or a function under `@engine`; sync or async."""

from __future__ import annotations

import asyncio
import inspect
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from .logs import running
from .notify import notify
from .outcomes import Cancelled, Done, Failed, Outcome, Reject, Retry, TaskCancelled, TaskError, text
from .spans import in_its_span
from .task import Task

RunFunction = Callable[[Task], Any]


class Engine:
    """Subclass it. `load` runs once before READY, `run` per task (`capacity` at a time), `close` at the end.

    `load` may set `capabilities`, when what it found decides what it can run, and `status`, shown beside its state."""

    capabilities: tuple[str, ...] | None = None  # None: those of the manifest
    status: str = "ready"

    def load(self) -> Any:
        """Loads the model. May be async. `loading` tells how far it is."""

    def loading(self, status: str) -> None:
        """Shows a sentence beside the state `loading`, such as "fetching the model, 40 %"."""
        notify(f"STATUS={text(status, 200)}")

    def run(self, task: Task) -> Any:
        """Runs one task; returns its result, or an outcome. May be async."""
        raise NotImplementedError(f"{type(self).__name__}.run(task) is missing")

    def close(self) -> Any:
        """Frees what `load` allocated. May be async."""

    def serve(self) -> None:
        """Runs this engine until SIGTERM, then ends the process. For `if __name__ == "__main__":`."""
        from .process.serve import serve

        sys.exit(serve(self))


class FunctionEngine(Engine):
    """An engine made of one function; still callable as that function."""

    def __init__(self, function: RunFunction) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def run(self, task: Task) -> Any:
        return self.function(task)

    def __call__(self, task: Task) -> Any:
        return self.function(task)


def engine(function: RunFunction) -> FunctionEngine:
    """Decorator: makes an engine of a function that takes a task and returns its result."""
    return FunctionEngine(function)


def is_async(an_engine: Engine) -> bool:
    function = an_engine.function if isinstance(an_engine, FunctionEngine) else an_engine.run
    return inspect.iscoroutinefunction(function)


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


def attempt(an_engine: Engine, task: Task) -> Outcome:
    """Calls `run` in this thread and returns its outcome. No exception of an author leaves this function."""
    try:
        with running(task), in_its_span(task):
            value = an_engine.run(task)
            if hasattr(type(value), "__await__"):
                value = asyncio.run(_awaited(value))
    except BaseException as error:  # noqa: BLE001 (an author's SystemExit is a failed task, not our end)
        return outcome_of_error(error, task)
    return outcome_of_value(value, task)


async def attempt_async(an_engine: Engine, task: Task) -> Outcome:
    """As `attempt`, on a running event loop."""
    try:
        with running(task), in_its_span(task):
            value = await an_engine.run(task)
    except BaseException as error:  # noqa: BLE001 (an author's SystemExit is a failed task, not our end)
        return outcome_of_error(error, task)
    return outcome_of_value(value, task)


def put_away(outcome: Outcome, task: Task) -> Outcome:
    """Stores a large result and removes the task's folder: in a thread of a worker, as neither the runner nor an event
    loop may wait for a disk or a bucket. Never raises."""
    outcome = task.files.with_stored_result(outcome)
    task.files.remove()
    return outcome


def outcome_of_value(value: Any, task: Task) -> Outcome:
    if isinstance(value, Cancelled):
        return _cancelled(task)
    return value if isinstance(value, (Done, Retry, Reject)) else Done(value)


def _cancelled(task: Task) -> Outcome:
    """A cancel that no client requested, such as of an await inside the engine, is a failure like any other."""
    if task.cancelled:
        return Cancelled()
    return Failed("the engine cancelled the task without a request to cancel it", "Cancelled", "")


def outcome_of_error(error: BaseException, task: Task) -> Outcome:
    if isinstance(error, (TaskCancelled, asyncio.CancelledError)):
        return _cancelled(task)
    message, kind = text(error), type(error).__name__
    out_of_memory = kind == "OutOfMemoryError" or "CUDA out of memory" in message
    retriable = bool(error.retriable) if isinstance(error, TaskError) else None
    trace = "".join(traceback.format_exception(error))
    return Failed(message or kind, kind, trace, gpu_oom=out_of_memory, retriable=retriable)

"""Logs of an engine: JSON lines in production, readable ones in development, each with the task that it is about.

On the standard library's logging: an engine's authors and their libraries use that already, and the base install needs
no further package. What is logged while a task runs gets the ids of that task, in threads and in coroutines.
"""

from __future__ import annotations

import contextvars
import logging
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from dalston_queue import task_log
from dalston_queue.broker import Delivery
from dalston_queue.broker.protocol import messages
from dalston_queue.broker.protocol.types import Settled

from .outcomes import BrokenConfigError
from .task import Task

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_OF_RECORDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "rows"}
_encode = msgspec.json.Encoder(enc_hook=str).encode
_running: contextvars.ContextVar[Task | None] = contextvars.ContextVar("running", default=None)

log = logging.getLogger("engine")


def configure() -> None:
    """From the environment, as the other processes. Leaves handlers that an author has set up. Raises
    BrokenConfigError."""
    name = os.environ.get("DALSTON_LOG_LEVEL") or "INFO"
    root = logging.getLogger()
    if not root.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(EngineFormatter(readable=_readable(), engine_id=os.environ.get("DALSTON_ENGINE_ID", "")))
        root.addHandler(handler)
        logging.captureWarnings(True)  # else a warning of a library would be lines of its own form
        root.setLevel(name if name in LEVELS else "INFO")
    if name not in LEVELS:
        raise BrokenConfigError(f"DALSTON_LOG_LEVEL is {name!r}. Expected one of {', '.join(LEVELS)}.")


def name_engine(engine_id: str) -> None:
    """From now on every line names this engine."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, EngineFormatter):
            handler.formatter.engine_id = engine_id


def _readable() -> bool:
    """In development, and in a terminal."""
    return os.environ.get("DALSTON_DEV", "").lower() in ("1", "true", "yes", "on") or sys.stderr.isatty()


class EngineFormatter(logging.Formatter):
    """Also of records that carry many lines (task_log.py)."""

    def __init__(self, *, readable: bool, engine_id: str) -> None:
        super().__init__()
        self.readable, self.engine_id = readable, engine_id

    def format(self, record: logging.LogRecord) -> str:
        rows = task_log.rows_of(record)
        if self.readable:
            return task_log.plain_lines(record, rows) if rows else self._plain(record)
        return task_log.json_lines(record, rows) if rows else self._json(record)

    def _json(self, record: logging.LogRecord) -> str:
        line = {
            "timestamp": task_log.timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **self._fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _encode(line).decode()

    def _plain(self, record: logging.LogRecord) -> str:
        line = task_log.plain_lines(record, [{"event": record.getMessage(), **self._fields(record)}])
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        task = _running.get()
        ids = {"engine_id": self.engine_id} if task is None else _ids(task, self.engine_id)
        return {**ids, **{name: value for name, value in vars(record).items() if name not in _OF_RECORDS}}


@contextmanager
def running(task: Task) -> Iterator[None]:
    """What this thread or coroutine logs meanwhile is about this task."""
    token = _running.set(task)
    try:
        yield
    finally:
        _running.reset(token)


def claimed(tasks: Iterable[Task], engine_id: str) -> None:
    """A line per claimed task. `claimed_stale_task`: an engine had it before and died, or its node was lost."""
    if log.isEnabledFor(logging.INFO):
        task_log.write(log, logging.INFO, [_claimed(task, engine_id) for task in tasks])


def settled(results: Iterable[tuple[Delivery, messages.Outcome, Settled]], engine_id: str) -> None:
    """A line per result that was sent: a warning if it was refused, because another engine has the task."""
    rows: dict[bool, list[task_log.Row]] = {True: [], False: []}
    for delivery, outcome, answer in results:
        rows[answer is Settled.LOST].append(_settled(delivery, outcome, answer, engine_id))
    task_log.write(log, logging.INFO, rows[False])
    task_log.write(log, logging.WARNING, rows[True])


def _claimed(task: Task, engine_id: str) -> dict[str, Any]:
    before = task.deliveries + task.delivery.losses
    row = {"event": "claimed_stale_task" if before else "task_claimed", **_ids(task, engine_id), "queue": task.queue}
    return {**row, "delivery_count": before + 1} if before else row


def _settled(delivery: Delivery, outcome: messages.Outcome, answer: Settled, engine_id: str) -> dict[str, Any]:
    message = delivery.message
    row: dict[str, Any] = {
        "event": "result_refused" if answer is Settled.LOST else "task_settled",
        "trace_id": message.trace_id,
        "job_id": message.job_id,
        "task_id": message.task_id,
        "attempt": message.attempt,
        "engine_id": engine_id,
        "queue": message.queue,
        "outcome": type(outcome).__name__.lower(),
    }
    if isinstance(outcome, messages.Failed):  # not its message: that may quote the parameters
        row |= {"cause": outcome.error.cause, "error_type": outcome.error.type}
    return row


def _ids(task: Task, engine_id: str) -> dict[str, Any]:
    values = (task.trace_id, task.job_id, task.id, task.attempt, engine_id)
    return dict(zip(task_log.ORDER, values, strict=True))

"""Log lines of tasks: many lines in one log record, written at once. Imports nothing of ours.

A transition of 500 tasks is 500 lines. One record each would cost more than the transition, so a record carries `rows`,
a mapping per line, and `lines_of` makes the text of all of them. Engines, orchestrators and web processes share it.

A row has ids, states, causes and times. Parameters, results and messages of errors never go into it: they are the
client's, and a log is read by more people than a job.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec

Row = Mapping[str, Any]
"""`event`, and the fields of one line."""

_encode = msgspec.json.Encoder().encode
ORDER = ("trace_id", "job_id", "task_id", "attempt", "engine_id")
"""The fields that every line of a task has, in this order."""


def write(log: logging.Logger, level: int, rows: Sequence[Row]) -> None:
    """Log these rows as one record, a line each. Ask `log.isEnabledFor(level)` before making them."""
    if not rows or not log.isEnabledFor(level):
        return
    first = rows[0]["event"]
    text = str(first) if len(rows) == 1 else f"{first} and {len(rows) - 1} more"
    log.handle(log.makeRecord(log.name, level, "", 0, text, (), None, extra={"rows": rows}))


def rows_of(record: logging.LogRecord) -> Sequence[Row]:
    """The rows that a record carries; none for a record of anything else."""
    rows: Sequence[Row] = getattr(record, "rows", ())
    return rows


def json_lines(record: logging.LogRecord, rows: Sequence[Row]) -> str:
    """One JSON object per row."""
    head = {"timestamp": timestamp(record), "level": record.levelname.lower(), "logger": record.name}
    return b"\n".join([_encode({**head, **row}) for row in rows]).decode()


def plain_lines(record: logging.LogRecord, rows: Sequence[Row]) -> str:
    """One readable line per row: time, level, event, logger, and each field as key=value."""
    at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")
    head, name = f"{at} [{record.levelname.lower():<9}]", record.name
    return "\n".join([f"{head} {row['event']:<30} [{name}] {_fields(row)}".rstrip() for row in rows])


def timestamp(record: logging.LogRecord) -> str:
    """As structlog writes it."""
    return datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")


def _fields(row: Row) -> str:
    return " ".join([f"{name}={_shown(value)}" for name, value in row.items() if name != "event"])


def _shown(value: object) -> object:
    """Quoted when it could be taken for more than one field or line."""
    if type(value) is UUID:
        return value
    text = str(value)
    return text if text and " " not in text and text.isprintable() else repr(text)

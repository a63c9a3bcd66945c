"""A task's log lines from all processes, by time: its transitions, from its history, and what its engines logged.

The log of an orchestrator is on its own machine. Each of its lines about a task has a row of the history, so these
lines are made of the rows. The engines' lines come from the logs of their nodes, found by the task's id.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from datetime import time as clock
from typing import Any
from uuid import UUID

import msgspec

from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.protocol.validate import moment
from dalston_queue.dashboard.nodes.logs import shown_text
from dalston_queue.dashboard.task.read import DeliveryLine, delivery_lines
from dalston_queue.database import before_wait
from dalston_queue.jobs.lifecycle.transition_log import TASK_EVENTS
from dalston_queue.models import Task, TaskEvent
from dalston_queue.redis import get_broker

MAX_TRANSITIONS = 200
MAX_DELIVERIES = 5
MAX_LINES = 300
"""Of one delivery."""
TIMEOUT_S = 4.0
"""Of all nodes together."""
AROUND = timedelta(seconds=1)
"""An engine may log a moment before its start or after its end is recorded."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    at: datetime
    process: str
    text: str

    @property
    def time(self) -> str:
        return self.at.strftime("%H:%M:%S.%f")[:-3]


@dataclass(frozen=True, slots=True)
class TaskLines:
    entries: tuple[LogEntry, ...]  # oldest first
    problems: tuple[str, ...]  # which engines' lines are missing, and why


def task_lines(task: Task) -> TaskLines:
    """The last lines of a task: at most MAX_TRANSITIONS, and MAX_LINES of each of its last MAX_DELIVERIES."""
    entries = [LogEntry(task.created_at, "web", f"job_submitted trace_id={task.job.trace_id}")]
    entries += [_transition(event) for event in TaskEvent.objects.filter(task=task).order_by("-id")[:MAX_TRANSITIONS]]
    deliveries = delivery_lines(task.id)
    problems = [f"Only the last {MAX_DELIVERIES} of {len(deliveries)} deliveries are read."]
    problems = problems if len(deliveries) > MAX_DELIVERIES else []
    before_wait()
    end = time.monotonic() + TIMEOUT_S
    for delivery in deliveries[-MAX_DELIVERIES:]:
        try:
            entries += _of_engine(delivery, task.id, end)
        except _Missing as missing:
            problems.append(str(missing))
    entries.sort(key=lambda entry: entry.at)
    return TaskLines(tuple(entries), tuple(dict.fromkeys(problems)))


class _Missing(Exception):
    """A sentence for the page."""


def _transition(event: TaskEvent) -> LogEntry:
    fields = {"attempt": event.attempt, "engine_id": event.engine_id, "from": event.from_status, "cause": event.cause}
    text = " ".join(f"{name}={value}" for name, value in fields.items() if value != "")
    return LogEntry(event.at, "orchestrator", f"{TASK_EVENTS.get(event.transition, event.transition)} {text}")


def _of_engine(line: DeliveryLine, task_id: UUID, end: float) -> list[LogEntry]:
    """The lines that name the task, in the log of one delivery's engine."""
    engine = line.delivery.engine_id
    if not line.node:
        raise _Missing(f"{engine or 'An engine'} had no supervisor, so its log is not kept.")
    since, until = line.delivery.started_at or line.delivery.finished_at, line.delivery.finished_at
    broker = get_broker()
    try:
        if line.node not in {node.node_id for node in broker.registry.nodes()}:
            raise _Missing(f"The node {line.node} is down, so its logs cannot be read.")
        tail = broker.logs(line.node).tail(
            engine,
            lines=MAX_LINES,
            since_ms=_ms(since - AROUND) if since else None,
            until_ms=_ms(until + AROUND) if until else None,
            containing=str(task_id),
            actor="dashboard",
            timeout=max(0.1, end - time.monotonic()),
        )
    except BrokerError:
        raise _Missing("Redis does not answer, so the logs of nodes cannot be requested.") from None
    if not tail.complete:
        status = tail.status
        raise _Missing(f"{line.node}: {status.message or 'no answer'}." if status else f"{line.node} does not answer.")
    return [_engine_line(line.slot, moment(each.at_ms), each.text) for each in tail.lines]


_IN_THE_PAGE = frozenset({"timestamp", "level", "logger", "event", "trace_id", "job_id", "task_id"})


_IN_WORDS = re.compile(r"(\d\d:\d\d:\d\d\.\d{6}) \[\w+ *\] ")
"""The start of a line as development writes it."""
LATE = timedelta(minutes=1)
"""A line may be read so long after it was written; another time of its own is not believed."""


def _engine_line(slot: str, read_at: datetime, text: str) -> LogEntry:
    """A JSON line of the SDK in words, other output as it is; at the time of its own, if it has one: the supervisor
    reads a line a moment later than the orchestrator applies what it is about."""
    at, fields = read_at, _fields(text)
    if fields is not None:
        with suppress(ValueError):
            at = datetime.fromisoformat(str(fields.get("timestamp")))
        names = (f"{name}={value}" for name, value in fields.items() if name not in _IN_THE_PAGE)
        text = " ".join([fields["event"], *names])
    elif found := _IN_WORDS.match(text):
        with suppress(ValueError):
            at = datetime.combine(read_at.date(), clock.fromisoformat(found[1]), read_at.tzinfo)
        text = text[found.end() :]
    known = at.tzinfo is not None and timedelta(0) <= read_at - at < LATE
    return LogEntry(at if known else read_at, slot, shown_text(text))


def _fields(text: str) -> dict[str, Any] | None:
    try:
        fields = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return fields if isinstance(fields.get("event"), str) else None


def _ms(when: datetime) -> int:
    return max(0, int(when.timestamp() * 1000))

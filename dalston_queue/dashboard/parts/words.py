"""Words and tones that several pages share: counts, durations, states, progress, outcomes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from dalston_queue.broker.broker import Broker
from dalston_queue.broker.protocol.types import EngineState, NodeState
from dalston_queue.jobs.lifecycle.states import TaskStatus
from dalston_queue.jobs.queries.progress import Progress, read_progress
from dalston_queue.jobs.queries.timeline import Delivery, DeliveryOutcome
from dalston_queue.models import Task

UNHEALTHY_TONES: dict[str, str] = {
    EngineState.CRASHLOOP: "bad",
    EngineState.FATAL: "warn",
    EngineState.UNKILLABLE: "warn",
    EngineState.UNHEALTHY: "warn",
    EngineState.DEAD: "warn",
}
"""States of engines that need attention, and their tone."""
TASK_TONES: dict[str, str] = {
    TaskStatus.COMPLETED: "ok",
    TaskStatus.RUNNING: "busy",
    TaskStatus.QUEUED: "wait",
    TaskStatus.READY: "wait",
    TaskStatus.SCHEDULED: "wait",
    TaskStatus.FAILED: "bad",
    TaskStatus.DEAD_LETTER: "bad",
}
MACHINE_TONES: dict[str, str] = {
    NodeState.ACTIVE: "ok",
    EngineState.READY: "ok",
    EngineState.STARTING: "busy",
    EngineState.LOADING: "busy",
    EngineState.DRAINING: "wait",
    NodeState.CORDONED: "wait",
    EngineState.BACKOFF: "bad",
    EngineState.CRASHLOOP: "bad",
    EngineState.FATAL: "bad",
    EngineState.UNHEALTHY: "bad",
    EngineState.UNKILLABLE: "bad",
    EngineState.DEAD: "bad",
}


def count(number: int, noun: str) -> str:
    """no engines, 1 engine, 2 engines."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def waiting_parts(waiting: int | None, ready: int | None) -> str:
    """Where the tasks of a lane or a queue wait; `ready` of them in Postgres, None if that is not known."""
    if waiting is None:
        return "Redis' own numbers contradict each other" + (f"; {ready} in Postgres" if ready else "")
    if ready is None:
        return f"{waiting} in the window; what waits in Postgres is not known"
    return f"{ready} in Postgres, {waiting - ready} in the window"


def time_spent(started_at: datetime | None, finished_at: datetime | None) -> str | None:
    """The duration, once it is over; while it runs, the page counts."""
    if started_at is None or finished_at is None:
        return None
    return duration((finished_at - started_at).total_seconds())


def duration(seconds: float) -> str:
    if seconds < 10:
        return f"{max(seconds, 0):.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


_DIRECTIONS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def without_directions(text: str) -> str:
    """A sentence that quotes a name: a character of the name that turns the writing around would turn the rest, too."""
    return _DIRECTIONS.sub("\N{REPLACEMENT CHARACTER}", text)


def clock(seconds: float) -> str:
    """A position in a recording: 0:07, 12:30, 1:05:00."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def progress_of(tasks: Iterable[Task], broker: Broker) -> dict[str, str]:
    """By task id. Nothing if Redis does not answer."""
    return {
        str(task_id): progress_words(reported) for task_id, reported in (read_progress(tasks, broker) or {}).items()
    }


def progress_words(reported: Progress) -> str:
    share = "" if reported.fraction is None else f"{100 * reported.fraction:.0f} %"
    return f"{share} {reported.message}".strip()


_TONES = {
    DeliveryOutcome.COMPLETED: "ok",
    DeliveryOutcome.RETRIED: "wait",
    DeliveryOutcome.RECOVERED: "wait",
    DeliveryOutcome.REBUILT: "wait",
    DeliveryOutcome.FAILED: "bad",
    DeliveryOutcome.DEAD_LETTER: "bad",
    DeliveryOutcome.CANCELLED: "",
}


def outcome_tone(delivery: Delivery) -> str:
    return "busy" if delivery.outcome is None else _TONES[delivery.outcome]


def outcome_words(delivery: Delivery) -> str:
    if delivery.outcome is None:
        return "running"
    spent = time_spent(delivery.started_at, delivery.finished_at)
    took = f" after {spent}" if spent else ""
    message = f": {delivery.message[:200]}" if delivery.message else ""
    return f"{delivery.outcome.replace('_', ' ')}{took}{message}"

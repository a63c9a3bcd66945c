"""Progress of running tasks, as their engines report it. It is kept in Redis only, and may be lost."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol
from uuid import UUID

from dalston_queue.broker.broker import Broker
from dalston_queue.broker.errors import BrokerError

MAX_MESSAGE_LENGTH = 200


class InQueue(Protocol):
    """A task's row, or anything else with the task's id and queue."""

    @property
    def id(self) -> UUID: ...
    @property
    def queue(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Progress:
    fraction: float | None = None
    """From 0 to 1; None: the engine reports no fraction."""
    message: str = ""


NO_PROGRESS = Progress()


def read_progress(tasks: Iterable[InQueue], broker: Broker) -> dict[UUID, Progress] | None:
    """The progress of each task, in one read per queue; None if Redis does not answer."""
    by_queue: defaultdict[str, dict[str, UUID]] = defaultdict(dict)
    for task in tasks:
        by_queue[task.queue][str(task.id)] = task.id
    found: dict[UUID, Progress] = {}
    try:
        for queue, ids in by_queue.items():
            records = broker.records(queue, list(ids))
            found |= {ids[task_id]: parse_progress(record.progress) for task_id, record in records.items()}
    except BrokerError:
        return None
    return found


def parse_progress(text: str) -> Progress:
    """The SDK reports a fraction and a message; an engine without it may report any JSON."""
    try:
        value: Any = json.loads(text or "null")
    except ValueError:
        value = text
    if value is None:
        return NO_PROGRESS
    if not isinstance(value, dict) or type(value.get("fraction")) not in {int, float}:
        return Progress(message=text[:MAX_MESSAGE_LENGTH])
    message = str(value.get("message") or "")[:MAX_MESSAGE_LENGTH]
    try:
        fraction = float(value["fraction"])
    except OverflowError:
        return Progress(message=message)
    return Progress(min(1.0, max(0.0, fraction)) if isfinite(fraction) else None, message)

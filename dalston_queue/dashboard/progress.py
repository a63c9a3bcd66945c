"""How far running tasks are, as their engines report it: only Redis knows."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from dalston_queue.broker.broker import Broker
from dalston_queue.broker.errors import BrokerError
from dalston_queue.models import Task

LONGEST = 200


def progress_of(tasks: Iterable[Task], broker: Broker) -> dict[str, str]:
    """By task id, in words; one look per queue. Nothing if Redis does not answer."""
    by_queue: defaultdict[str, list[str]] = defaultdict(list)
    for task in tasks:
        by_queue[task.queue].append(str(task.id))
    found: dict[str, str] = {}
    try:
        for queue, task_ids in by_queue.items():
            found |= {task_id: words(record.progress) for task_id, record in broker.records(queue, task_ids).items()}
    except BrokerError:
        return {}
    return found


def words(reported: str) -> str:
    """The SDK reports a fraction and a message; an engine without it may report any JSON."""
    try:
        value: Any = json.loads(reported or "null")
    except ValueError:
        value = reported
    if value is None:
        return ""
    if not isinstance(value, dict) or type(value.get("fraction")) not in {int, float}:
        return reported[:LONGEST]
    return f"{100 * value['fraction']:.0f} % {value.get('message') or ''}".strip()[:LONGEST]

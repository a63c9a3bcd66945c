"""How far running tasks are, in words for a page."""

from __future__ import annotations

from collections.abc import Iterable

from dalston_queue.broker.broker import Broker
from dalston_queue.jobs.queries.progress import Reported, reported_by
from dalston_queue.models import Task


def progress_of(tasks: Iterable[Task], broker: Broker) -> dict[str, str]:
    """By task id. Nothing if Redis does not answer."""
    return {str(task_id): words(reported) for task_id, reported in (reported_by(tasks, broker) or {}).items()}


def words(reported: Reported) -> str:
    share = "" if reported.fraction is None else f"{100 * reported.fraction:.0f} %"
    return f"{share} {reported.message}".strip()

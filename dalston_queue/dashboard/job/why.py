"""Why each of a job's tasks does not run, for all of them at once: a fixed number of reads, however many wait."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from dalston_queue.broker import Broker
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.nodes.registry import EngineInfo
from dalston_queue.broker.protocol.record import Record
from dalston_queue.broker.views.snapshot import QueueStats
from dalston_queue.jobs.lifecycle.states import TASK_OVER, TaskStatus
from dalston_queue.jobs.queries.lanes import read_lanes
from dalston_queue.jobs.queries.pace import paces
from dalston_queue.jobs.queries.turn import orders
from dalston_queue.jobs.queries.why import Facts, explain
from dalston_queue.models import StagePause, Task

QUEUED_STATES = (TaskStatus.READY, TaskStatus.QUEUED)


def why_each(tasks: Sequence[Task], broker: Broker, now: datetime) -> dict[UUID, str]:
    """A sentence of `jobs/queries/why.py` for each task that is not over."""
    open_stages = {task.stage for task in tasks if task.status not in TASK_OVER}
    queued = _queued([task for task in tasks if task.status in QUEUED_STATES], broker)
    found = {}
    for task in tasks:
        if task.status in TASK_OVER:
            continue
        facts = queued.get(task.id, Facts(unfinished=tuple(stage for stage in task.after if stage in open_stages)))
        found[task.id] = explain(task, facts, now).sentence
    return found


def _queued(tasks: list[Task], broker: Broker) -> dict[UUID, Facts]:
    """As `facts_about` reads them for one task, without the number of older tasks before each."""
    if not tasks:
        return {}
    queues = sorted({task.queue for task in tasks})
    pauses = dict(StagePause.objects.filter(queue__in=queues).values_list("queue", "reason"))
    records: dict[str, Record] = {}
    stats: dict[str, QueueStats] = {}
    pace: dict[str, float] = {}
    engines: list[EngineInfo] | None = None
    try:
        for queue in queues:
            records |= broker.records(queue, [str(task.id) for task in tasks if task.queue == queue])
        snapshot = read_lanes(broker, queues)
        stats = {each.queue: each for each in snapshot.queues}
        engines = list(broker.registry.engines())
        pace = paces(snapshot)
    except BrokerError:
        engines = None
    order = orders(tasks)
    return {
        task.id: Facts(
            paused_because=pauses.get(task.queue),
            record=records.get(str(task.id)),
            queue=stats.get(task.queue),
            engines=None if engines is None else [engine for engine in engines if task.queue in engine.queues],
            pace=pace.get(task.queue),
            order=order.get(task.id),
            names_others=True,  # every login sees all projects
        )
        for task in tasks
    }

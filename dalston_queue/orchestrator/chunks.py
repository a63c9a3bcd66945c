"""Chunks: how much of what was read one transaction takes, so that no project holds up the others for long.

A job weighs as many stages as it still has to make READY. Projects take turns. The decisions are pure.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from dalston_queue.broker.protocol.messages import Event, Malformed
from dalston_queue.broker.protocol.types import EventKind
from dalston_queue.ids import is_uuid
from dalston_queue.jobs.lifecycle.status import id_array

MAX_STAGES = 250
"""Stages of one transaction: the largest job, which has 200, and some light ones. They take about a twentieth of a
second, and the events of other jobs wait as long. With 1 000 another project's task took twice as long."""

Item = Event | Malformed

_WEIGHTS = """
    SELECT id::text, project_id::text,
           (SELECT count(*) FROM dalston_task t WHERE t.job_id = j.id AND t.status = 'pending')
    FROM dalston_job j WHERE id = ANY(%s::uuid[])"""


class Weight(NamedTuple):
    """Of a job that has events."""

    project: str = ""
    stages: int = 0  # that it still has to make READY


def weights_of(batch: Sequence[Item]) -> dict[str, Weight]:
    """Of the jobs of these events."""
    jobs = {UUID(item.job_id) for item in batch if isinstance(item, Event) and is_uuid(item.job_id)}
    if not jobs:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_WEIGHTS, [id_array(jobs)])
        return {job: Weight(project, stages) for job, project, stages in cursor.fetchall()}


_NO_WEIGHT = Weight()


class Turn(NamedTuple):
    """What one transaction applies, and what remains."""

    part: list[Item]
    rest: list[Item]
    left: list[Item]  # hints of jobs that are left to the poll


def next_turn(items: Sequence[Item], weights: Mapping[str, Weight], max_events: int) -> Turn:
    """The next events, from each project in turn: at most so many, of jobs of about MAX_STAGES. The events of a task
    stay together and in order. Hints beyond them are left, if their jobs have no other event here."""
    units: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        units.setdefault(_task_of(item), []).append(item)
    of_project: dict[str, deque[tuple[str, list[Item]]]] = {}
    for (job, _), unit in units.items():
        of_project.setdefault(weights.get(job, _NO_WEIGHT).project, deque()).append((job, unit))
    part: list[Item] = []
    taken: set[str] = set()
    size = 0
    waiting = deque(of_project.values())
    while waiting:
        queue = waiting.popleft()
        job, unit = queue[0]
        stages = 0 if job in taken else weights.get(job, _NO_WEIGHT).stages
        if part and (size + stages > MAX_STAGES or len(part) + len(unit) > max_events):
            continue  # the rest of this project waits
        queue.popleft()
        part += unit
        taken.add(job)
        size += stages
        if queue:
            waiting.append(queue)
    remaining = [(job, unit) for queue in of_project.values() for job, unit in queue]
    busy = taken.union(job for job, unit in remaining if not all(map(_is_hint, unit)))
    rest = [item for job, unit in remaining if job in busy for item in unit]
    return Turn(part, rest, [item for job, unit in remaining if job not in busy for item in unit])


def job_id_of(item: Item) -> str:
    return item.job_id if isinstance(item, Event) else ""


def _task_of(item: Item) -> tuple[str, str]:
    return job_id_of(item), item.task_id if isinstance(item, Event) else ""


def _is_hint(item: Item) -> bool:
    return isinstance(item, Event) and item.kind is EventKind.JOB_CREATED


def first_of(found: Sequence[tuple[UUID, int]]) -> list[UUID]:
    """The first jobs, of about MAX_STAGES stages, at least one."""
    chosen: list[UUID] = []
    size = 0
    for job, weight in found:
        if chosen and size + weight > MAX_STAGES:
            break
        chosen.append(job)
        size += weight
    return chosen

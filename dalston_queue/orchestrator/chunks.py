"""Chunks: how much of a batch one transaction takes, so that a job of many stages holds up no other job for long.

A job weighs as many stages as it still has to make READY. Small jobs come first. The decisions are pure.
"""

from collections.abc import Mapping, Sequence
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
    SELECT job_id::text, count(*) FROM dalston_task
    WHERE job_id = ANY(%s::uuid[]) AND status = 'pending' GROUP BY job_id"""


def weights_of(batch: Sequence[Item]) -> dict[str, int]:
    """How many stages each job of a batch of events still has to make READY."""
    jobs = {UUID(item.job_id) for item in batch if isinstance(item, Event) and is_uuid(item.job_id)}
    if len(jobs) <= 1:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_WEIGHTS, [id_array(jobs)])
        return dict(cursor.fetchall())


def chunked(batch: Sequence[Item], weights: Mapping[str, int]) -> tuple[list[list[Item]], list[Item]]:
    """The batch in parts of about MAX_STAGES, those of light jobs first, each job's events in order and in one part;
    and the hints that are left: of jobs beyond the first part that have no other event here."""
    if sum(weights.values()) <= MAX_STAGES:
        return [list(batch)], []
    of_job: dict[str, list[Item]] = {}
    for item in batch:
        of_job.setdefault(item.job_id if isinstance(item, Event) else "", []).append(item)
    parts: list[list[Item]] = [[]]
    left: list[Item] = []
    size = 0
    for job, items in sorted(of_job.items(), key=lambda pair: weights.get(pair[0], 0)):
        weight = weights.get(job, 0)
        if parts[-1] and size + weight > MAX_STAGES:
            parts.append([])
            size = 0
        if len(parts) > 1 and all(_is_hint(item) for item in items):
            left += items
            continue
        parts[-1] += items
        size += weight
    return [part for part in parts if part], left


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

"""Lanes that are submitted to: registered in Postgres, within the limits of queues and of capability sets.

A full registry refuses the new name at its submission, never a lane that there is. A lane that is in use is remembered
for a minute by each process, so a submission to it asks nothing.
"""

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from dalston_queue.broker.protocol.keys import MAX_LANES, queue_of_lane
from dalston_queue.jobs.errors import TooManyNames

NOTED_S = 60.0
"""Precision of `used_at`. A lane is forgotten after at least twice as long (DALSTON_FORGET_QUEUES_S)."""

_NOTE = """
    WITH stale AS (
        SELECT name FROM dalston_lane WHERE name = ANY(%(names)s) AND used_at < %(before)s
        ORDER BY name FOR UPDATE SKIP LOCKED
    ), noted AS (
        UPDATE dalston_lane l SET used_at = %(now)s FROM stale WHERE l.name = stale.name
    )
    SELECT name FROM dalston_lane WHERE name = ANY(%(names)s)"""
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('dalston_lane'))"
_QUEUES = """
    SELECT count(*), count(*) FILTER (WHERE project_id = %s) FROM dalston_lane WHERE name = queue"""
_SETS = """
    SELECT queue, count(*), count(*) FILTER (WHERE project_id = %s) FROM dalston_lane
    WHERE queue = ANY(%s) AND name <> queue GROUP BY queue"""
_ADD = """
    INSERT INTO dalston_lane (name, queue, project_id, used_at)
    SELECT name, split_part(name, '@', 1), %s, %s FROM unnest(%s::text[]) AS name ON CONFLICT DO NOTHING"""

_known: dict[str, float] = {}
"""When this process noted the use of a lane, by its monotonic clock. Bounded by the registry."""


def register(wanted: Sequence[Collection[str]], project_id: UUID) -> list[TooManyNames | None]:
    """Note that these lanes are used, of each job all or none; why a job is refused, or None, in their order."""
    names = set().union(*wanted)
    clock = time.monotonic()
    unknown = {name for name in names if clock - _known.get(name, float("-inf")) >= NOTED_S}
    if not unknown:
        return [None] * len(wanted)
    now = timezone.now()
    new = unknown - _note(unknown, now)
    refused: list[TooManyNames | None] = [None] * len(wanted)
    if new:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_LOCK)
            registry = _read(new | {queue_of_lane(name) for name in new}, project_id, now)
            refused = [registry.add(lanes) for lanes in wanted]
            if registry.added:
                cursor.execute(_ADD, [project_id, now, registry.added])
    if len(_known) > 2 * settings.DALSTON_MAX_QUEUES * MAX_LANES:
        _known.clear()  # names that were forgotten
    for lanes, refusal in zip(wanted, refused, strict=True):
        if refusal is None:
            _known.update(dict.fromkeys(lanes, clock))
    return refused


def forget() -> None:
    """Ask Postgres again about every lane."""
    _known.clear()


@dataclass(slots=True)
class Registry:
    """What is registered of the lanes that a request names, and the room that is left. Pure."""

    there: set[str]
    queues_left: int
    queues_left_of_project: int
    sets: Counter[str]
    sets_of_project: Counter[str]
    added: list[str]

    def add(self, lanes: Collection[str]) -> TooManyNames | None:
        """Add the lanes of one job, or none of them."""
        queues = {queue_of_lane(lane) for lane in lanes} - self.there
        sets = {lane for lane in lanes if "@" in lane} - self.there
        by_queue = Counter(map(queue_of_lane, sets))
        if refusal := self._refusal(queues, by_queue):
            return TooManyNames(refusal)
        self.added += sorted(queues | sets)
        self.there |= queues | sets
        self.queues_left -= len(queues)
        self.queues_left_of_project -= len(queues)
        self.sets += by_queue
        self.sets_of_project += by_queue
        return None

    def _refusal(self, queues: set[str], sets: Counter[str]) -> str:
        name = min(queues, default="")
        if len(queues) > self.queues_left_of_project:
            return (
                f"the queue {name} would be one more than the {settings.DALSTON_MAX_QUEUES_PER_PROJECT} that a project "
                "may be the first to use; use fewer names, or wait until unused ones are forgotten"
            )
        if len(queues) > self.queues_left:
            return (
                f"the queue {name} would be one more than the {settings.DALSTON_MAX_QUEUES} of this installation; "
                "use one that there is, or wait until unused ones are forgotten"
            )
        for queue, count in sets.items():
            if self.sets_of_project[queue] + count > settings.DALSTON_MAX_LANES_PER_PROJECT:
                return (
                    f"the project would be the first to use more than {settings.DALSTON_MAX_LANES_PER_PROJECT} "
                    f"combinations of required_capabilities in the queue {queue}; use fewer"
                )
            if self.sets[queue] + count > MAX_LANES - 1:
                return (
                    f"the queue {queue} has {MAX_LANES - 1} combinations of required_capabilities already; use one "
                    "that there is, or wait until unused ones are forgotten"
                )
        return ""


def _note(names: set[str], now: datetime) -> set[str]:
    """Note the use of these lanes; returns those that there are."""
    with connection.cursor() as cursor:
        before = now - timedelta(seconds=NOTED_S)
        cursor.execute(_NOTE, {"names": sorted(names), "before": before, "now": now})
        return {row[0] for row in cursor.fetchall()}


def _read(names: set[str], project_id: UUID, now: datetime) -> Registry:
    there = _note(names, now)
    with connection.cursor() as cursor:
        cursor.execute(_QUEUES, [project_id])
        queues, own_queues = cursor.fetchone()
        cursor.execute(_SETS, [project_id, sorted({queue_of_lane(name) for name in names})])
        rows = cursor.fetchall()
    return Registry(
        there=there,
        queues_left=settings.DALSTON_MAX_QUEUES - queues,
        queues_left_of_project=settings.DALSTON_MAX_QUEUES_PER_PROJECT - own_queues,
        sets=Counter({queue: sets for queue, sets, _ in rows}),
        sets_of_project=Counter({queue: own for queue, _, own in rows}),
        added=[],
    )

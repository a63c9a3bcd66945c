"""Pace of a queue: tasks per second, and how long until a task starts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import takewhile

from dalston_queue.broker.protocol.validate import moment
from dalston_queue.broker.views.snapshot import QueueStats, Snapshot
from dalston_queue.models import Sample

WINDOW = timedelta(minutes=10)
MIN_ELAPSED_MS = 15_000
"""A pace over less time than this may be chance."""

Numbers = Mapping[str, float]


def seconds_for(tasks: float, per_second: float) -> float | None:
    """How long so many tasks take; None if the pace is 0."""
    return tasks / per_second if per_second > 0 else None


def numbers_of(queue: QueueStats, at_ms: int) -> dict[str, int]:
    """The numbers of a queue's sample. The duty runs at any second of its minute, so the counter's time is kept with
    it."""
    return {"waiting": queue.waiting, "ran": queue.ran, "at_ms": at_ms}


COUNTERS = ("completed", "failed", "expired", "exhausted", "recovered", "refused")


def counters_of(queue: QueueStats, at_ms: int) -> dict[str, int]:
    """The queue's counters in Redis, as a sample: what they grew by since then is what happened."""
    counters = {name: queue.counters.get(name, 0) for name in COUNTERS}
    return {**counters, "ran": queue.ran, "at_ms": at_ms}


def paces(snapshot: Snapshot) -> dict[str, float]:
    """The tasks that engines finish per second, by queue, from its samples; without queues whose pace is not known."""
    names = [queue.queue for queue in snapshot.queues]
    recent = Sample.objects.filter(kind="queue", name__in=names, at__gt=moment(snapshot.at_ms) - WINDOW)
    before: defaultdict[str, list[Numbers]] = defaultdict(list)
    for name, numbers in recent.order_by("-at").values_list("name", "numbers"):
        before[name].append(numbers)
    found = {queue.queue: pace(numbers_of(queue, snapshot.at_ms), before[queue.queue]) for queue in snapshot.queues}
    return {name: per_second for name, per_second in found.items() if per_second is not None}


def pace(now: Numbers, before: Sequence[Numbers]) -> float | None:
    """`before`: samples, newest first. Only those in a row with waiting tasks count: an empty queue completes nothing,
    however fast its engines are."""
    busy = list(takewhile(lambda numbers: numbers["waiting"] > 0, before))
    if not busy:
        return None
    elapsed_ms = now["at_ms"] - busy[-1]["at_ms"]
    ran = now["ran"] - busy[-1]["ran"]
    # A counter that decreased was lost with its Redis.
    return 1000 * ran / elapsed_ms if elapsed_ms >= MIN_ELAPSED_MS and ran >= 0 else None


def ended_per_s(now: datetime) -> dict[str, float]:
    """Tasks that ended per second in the last minutes, by queue, from its samples."""
    counted: defaultdict[str, list[float]] = defaultdict(list)
    for name, numbers in Sample.objects.filter(kind="queue", at__gt=now - WINDOW).values_list("name", "numbers"):
        counted[name].append(numbers.get("completed", 0) + numbers.get("failed", 0))
    return {name: sum(each) / (60 * len(each)) for name, each in counted.items()}


def in_words(seconds: float) -> str:
    """45 s, 12 min, 3 h."""
    if seconds < 90:
        return f"{round(seconds)} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{round(seconds / 3600)} h"

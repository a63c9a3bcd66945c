"""The duty that stores samples of queues, lanes, tasks, dead letters, workers and GPUs once a minute, for a day.

Counters are stored as they are (entries ever added, ever removed): a missed minute then loses no event, only detail.
What ended, and how long it had waited, is counted per minute: of a missed minute it is not known.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

from django.utils import timezone

from dalston_queue.broker.protocol.types import EngineState, NodeState, Tier
from dalston_queue.broker.views.snapshot import LaneStats
from dalston_queue.jobs.queries.ended import NONE, Ended, Percentiles, ended_between, retries_between
from dalston_queue.jobs.queries.lanes import read_lanes
from dalston_queue.jobs.queries.pace import counters_of, numbers_of
from dalston_queue.jobs.queries.queues import select
from dalston_queue.jobs.queries.waits import age_distribution
from dalston_queue.models import DeadLetter, Sample
from dalston_queue.models.dead_letter import OPEN
from dalston_queue.orchestrator.duties.report import Report
from dalston_queue.redis import get_broker

RETENTION = timedelta(days=1)
SETTLED = timedelta(seconds=15)
"""An end reaches Postgres a little later than it happened: so long after it is counted."""
COUNT_LIMIT = 100_001
"""Open dead letters are counted to here: a full count would read every one of them."""

Sampler = Callable[[datetime], Iterable[Sample]]


def take_samples(now: datetime) -> Report:
    minute = now.replace(second=0, microsecond=0)
    rows = [sample for sampler in SAMPLERS for sample in sampler(minute)]
    # The same minute again, after a run that failed halfway: existing rows stay.
    Sample.objects.bulk_create(rows, ignore_conflicts=True)
    report = Report()
    report.note("samples", len(rows), repaired=False)
    report.note("old samples", Sample.objects.filter(at__lt=minute - RETENTION).delete()[0])
    return report


def _queues(minute: datetime) -> Iterator[Sample]:
    broker = get_broker()
    snapshot = read_lanes(broker, select(broker.queues()).names)
    end = minute - SETTLED
    ended = ended_between(end - timedelta(minutes=1), end)
    for queue in snapshot.queues:
        numbers = numbers_of(queue, snapshot.at_ms) | _ended(ended.by_queue.get(queue.queue, NONE))
        yield Sample(kind="queue", name=queue.queue, at=minute, numbers=numbers)
        counters = counters_of(queue, snapshot.at_ms)
        yield Sample(kind="counters", name=queue.queue, at=minute, numbers=counters)
        for lane in queue.lanes:
            if lane.added or lane.ready or _is_plain(lane):
                yield Sample(kind="lane", name=lane.name, at=minute, numbers=_numbers(lane))
    yield Sample(kind="tasks", name="all", at=minute, numbers=_tasks(end, ended.all))


def _ended(ended: Ended) -> dict[str, float]:
    """Without a task there is no wait, and so no number."""
    waits = {} if ended.waits is None else {"median_wait_s": ended.waits[0], "p95_wait_s": ended.waits[1]}
    return {"completed": ended.completed, "failed": ended.failed, **waits}


def _tasks(end: datetime, ended: Ended) -> dict[str, float]:
    """Of all queues: what ended in the minute, its times, retries by reason, and the ages of what waits now."""
    retries = retries_between(end - timedelta(minutes=1), end)
    return {
        "completed": ended.completed,
        "failed": ended.failed,
        **_percentiles("wait", ended.waits),
        **_percentiles("run", ended.ran),
        **{f"retry_{cause}": number for cause, number in retries.items()},
        **age_distribution(timezone.now()),
    }


def _percentiles(name: str, seconds: Percentiles | None) -> dict[str, float]:
    names = (f"{name}_p50", f"{name}_p95", f"{name}_p99")
    return {} if seconds is None else dict(zip(names, seconds, strict=True))


def _numbers(lane: LaneStats) -> dict[str, int]:
    """A negative lag is no number of waiting tasks: it is left out."""
    known = {"waiting": lane.waiting} if lane.consistent else {}
    return {**known, "running": lane.pending, "added": lane.added, "removed": lane.removed}


def _is_plain(lane: LaneStats) -> bool:
    """True for the lane that is shown even if it was never used."""
    return lane.tier is Tier.MEDIUM and not lane.capabilities


def _dead_letters(minute: datetime) -> Iterator[Sample]:
    made = DeadLetter.objects.filter(created_at__gte=minute - timedelta(minutes=1), created_at__lt=minute).count()
    waiting = DeadLetter.objects.filter(OPEN)[:COUNT_LIMIT].count()
    yield Sample(kind="dead_letters", name="all", at=minute, numbers={"made": made, "open": waiting})


def _gpus(minute: datetime) -> Iterator[Sample]:
    """GPUs of live nodes: the last report of a dead node is no measurement."""
    for node in get_broker().registry.nodes():
        if node.state is not NodeState.DEAD:
            for gpu in node.report.gpus.devices:
                numbers = {"used_mib": gpu.used_mib, "utilisation": gpu.utilisation, "temperature": gpu.temperature}
                yield Sample(kind="gpu", name=f"{node.node_id} {gpu.uuid}"[:300], at=minute, numbers=numbers)


def _workers(minute: datetime) -> Iterator[Sample]:
    """Slots of ready engines and what they run, and the failed probes of all."""
    broker = get_broker()
    at_ms = broker.snapshot([]).at_ms
    engines = broker.registry.engines()
    ready = [engine for engine in engines if engine.state is EngineState.READY]
    numbers = {
        "capacity": sum(engine.capacity for engine in ready),
        "running": sum(min(engine.report.running, engine.capacity) for engine in ready),
        "probe_failures": sum(engine.report.probe_failures for engine in engines),
        "at_ms": at_ms,
    }
    yield Sample(kind="workers", name="all", at=minute, numbers=numbers)


SAMPLERS: tuple[Sampler, ...] = (_queues, _dead_letters, _gpus, _workers)

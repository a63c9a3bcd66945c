"""The queue's metrics, read from one snapshot at each scrape.

On `/metrics` of the web process, and of an orchestrator started with `--metrics`. The label `stage` is the queue.
"""

from collections.abc import Iterator

from django.conf import settings
from django.db import Error
from django.http import HttpRequest, HttpResponse
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from dalston_queue.broker import Broker
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.views.snapshot import Snapshot
from dalston_queue.database import release_connection
from dalston_queue.jobs.queries.lanes import ReadyByQueue, read_ready, with_ready
from dalston_queue.redis import get_broker


class QueueCollector(Collector):
    """All metrics of a scrape come from one snapshot. What a server that does not answer would tell is absent, and
    `dalston_redis_up` or `dalston_postgres_up` is 0."""

    def describe(self) -> list[Metric]:
        return []  # registering must not ask the servers

    def collect(self) -> Iterator[Metric]:
        ready = _ready()
        try:
            found = list(_queues(get_broker(), ready))
            redis_answers = True
        except BrokerError:
            found, redis_answers = [], False
        yield GaugeMetricFamily("dalston_redis_up", "1 if Redis answered this scrape", int(redis_answers))
        yield GaugeMetricFamily("dalston_postgres_up", "1 if Postgres answered this scrape", int(ready is not None))
        yield from found


def _ready() -> ReadyByQueue | None:
    """What waits in Postgres; None if Postgres does not answer."""
    try:
        return read_ready()
    except Error:
        return None
    finally:
        release_connection()  # an orchestrator serves each scrape in a thread of its own


def _queues(broker: Broker, ready: ReadyByQueue | None) -> Iterator[Metric]:
    pending = GaugeMetricFamily("dalston_tasks_pending", "Number of tasks currently being processed", labels=["stage"])
    stale = GaugeMetricFamily("dalston_tasks_stale", "Number of tasks idle longer than threshold", labels=["stage"])
    recovered = CounterMetricFamily("dalston_task_recovery_total", "Number of stale tasks recovered", labels=["stage"])
    snapshot = broker.snapshot()
    for stats in snapshot.queues:
        label = [stats.queue]
        idle = broker.pending(stats.queue, min_idle_ms=settings.DALSTON_STALE_THRESHOLD_MS, limit=1)
        pending.add_metric(label, stats.running)
        stale.add_metric(label, idle.total)
        recovered.add_metric(label, stats.counters.get("recovered", 0))
    yield from (pending, stale, recovered)
    if ready is not None:
        yield from _depths(with_ready(broker, snapshot, ready))


def _depths(snapshot: Snapshot) -> Iterator[Metric]:
    depth = GaugeMetricFamily("dalston_queue_depth", "Number of tasks waiting in queue", labels=["stage"])
    in_postgres = GaugeMetricFamily("dalston_queue_ready", "Number of those that wait in Postgres", labels=["stage"])
    for stats in snapshot.queues:
        depth.add_metric([stats.queue], stats.waiting)
        in_postgres.add_metric([stats.queue], stats.ready)
    yield from (depth, in_postgres)


def register(registry: CollectorRegistry = REGISTRY) -> None:
    """Add the queue's metrics to a process's registry."""
    registry.register(QueueCollector())


_web = CollectorRegistry()
register(_web)


def metrics(_request: HttpRequest) -> HttpResponse:
    """`GET /metrics`. No login: it has no names of jobs or people."""
    return HttpResponse(generate_latest(_web), content_type=CONTENT_TYPE_LATEST)

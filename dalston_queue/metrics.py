"""The queue's metrics, read from one snapshot of the broker at each scrape.

On `/metrics` of the web process, and of an orchestrator started with `--metrics`. The label `stage` is the queue.
"""

from collections.abc import Iterator

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from dalston_queue.broker import Broker
from dalston_queue.broker.errors import BrokerError
from dalston_queue.redis import get_broker


class QueueCollector(Collector):
    """All metrics of a scrape come from one snapshot. Without Redis they are absent, and `dalston_redis_up` is 0."""

    def describe(self) -> list[Metric]:
        return []  # registering must not ask Redis

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("dalston_redis_up", "1 if Redis answered this scrape")
        try:
            found = list(_queues(get_broker()))
            up.add_metric([], 1)
        except BrokerError:
            found = []
            up.add_metric([], 0)
        yield up
        yield from found


def _queues(broker: Broker) -> Iterator[Metric]:
    depth = GaugeMetricFamily("dalston_queue_depth", "Number of tasks waiting in queue", labels=["stage"])
    pending = GaugeMetricFamily("dalston_tasks_pending", "Number of tasks currently being processed", labels=["stage"])
    stale = GaugeMetricFamily("dalston_tasks_stale", "Number of tasks idle longer than threshold", labels=["stage"])
    recovered = CounterMetricFamily("dalston_task_recovery_total", "Number of stale tasks recovered", labels=["stage"])
    for stats in broker.snapshot().queues:
        label = [stats.queue]
        idle = broker.pending(stats.queue, min_idle_ms=settings.DALSTON_STALE_THRESHOLD_MS, limit=1)
        depth.add_metric(label, stats.waiting)
        pending.add_metric(label, stats.running)
        stale.add_metric(label, idle.total)
        recovered.add_metric(label, stats.counters.get("recovered", 0))
    yield from (depth, pending, stale, recovered)


def register(registry: CollectorRegistry = REGISTRY) -> None:
    """Add the queue's metrics to a process's registry."""
    registry.register(QueueCollector())


_web = CollectorRegistry()
register(_web)


def metrics(_request: HttpRequest) -> HttpResponse:
    """`GET /metrics`. No login: it has no names of jobs or people."""
    return HttpResponse(generate_latest(_web), content_type=CONTENT_TYPE_LATEST)

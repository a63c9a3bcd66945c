"""Declarations of metrics: name, type, labels with their bounded values, help, and where it is set. Imports no Django.

A metric that is counted as things happen is an object of prometheus-client (`counter`, `live_gauge`, `histogram`). One
that is read at a scrape is a `Family`, which the collector fills.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from dalston_queue.broker.protocol.types import Cause, Priority, Tier

PRIORITIES = ", ".join(Priority)
TIERS = ", ".join(Tier)
CAUSES = ", ".join(Cause)
STAGES = "queues; past 100 of them, `other` holds the rest"
NODES = "nodes that beat within a day; `artifacts` is the folder of the artifact store"
SLOTS = "engine slots of this node"


@dataclass(frozen=True, eq=False)
class Metric:
    """One row of docs/operate/metrics.md."""

    name: str  # as it is exposed: a counter ends in _total
    kind: str  # counter, gauge or histogram
    help: str
    set_in: str
    served_by: str
    labels: Mapping[str, str] = field(default_factory=dict)  # each with its possible values, in words

    @property
    def row(self) -> str:
        labels = "; ".join(f"`{label}`: {values}" for label, values in self.labels.items()) or "–"
        return f"| `{self.name}` | {self.kind} | {self.help} | {labels} | `{self.set_in}` | {self.served_by} |"


DECLARED: dict[str, Metric] = {}


def _declare(metric: Metric) -> Metric:
    if metric.name in DECLARED:
        raise ValueError(f"the metric {metric.name} is declared twice")
    DECLARED[metric.name] = metric
    return metric


def counter(
    name: str,
    help: str,  # noqa: A002
    *,
    set_in: str,
    served_by: str,
    labels: Mapping[str, str] | None = None,
    from_zero: Iterable[Sequence[str]] = (),
) -> Counter:
    """`from_zero`: values of the labels whose series exist from the start. Of a series that begins with its first event
    Prometheus would not see that event."""
    _declare(Metric(name, "counter", help, set_in, served_by, labels or {}))
    made = Counter(name, help, list(labels or {}))
    for values in from_zero:
        made.labels(*values)
    return made


def live_gauge(name: str, help: str, *, set_in: str, served_by: str) -> Gauge:  # noqa: A002
    """A gauge that this process sets as it changes."""
    _declare(Metric(name, "gauge", help, set_in, served_by))
    return Gauge(name, help)


def histogram(
    name: str,
    help: str,  # noqa: A002
    *,
    set_in: str,
    served_by: str,
    labels: Mapping[str, str] | None = None,
    buckets: Sequence[float],
) -> Histogram:
    _declare(Metric(name, "histogram", help, set_in, served_by, labels or {}))
    return Histogram(name, help, list(labels or {}), buckets=buckets)


@dataclass(frozen=True, eq=False)
class Family:
    """A metric that is read at a scrape."""

    metric: Metric

    def empty(self) -> GaugeMetricFamily | CounterMetricFamily:
        """Without samples, for one scrape."""
        kind = CounterMetricFamily if self.metric.kind == "counter" else GaugeMetricFamily
        return kind(self.metric.name, self.metric.help, labels=list(self.metric.labels))

    def of(self, values: Mapping[tuple[str, ...], float]) -> GaugeMetricFamily | CounterMetricFamily:
        """With these samples, by the values of their labels."""
        family = self.empty()
        for labels, value in values.items():
            family.add_metric(list(labels), value)
        return family

    def value(self, number: float) -> GaugeMetricFamily | CounterMetricFamily:
        """With one sample, without labels."""
        return self.of({(): number})


def read(
    kind: str,
    name: str,
    help: str,  # noqa: A002
    *,
    set_in: str,
    served_by: str,
    labels: Mapping[str, str] | None = None,
) -> Family:
    return Family(_declare(Metric(name, kind, help, set_in, served_by, labels or {})))

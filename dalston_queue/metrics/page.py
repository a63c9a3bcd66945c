"""docs/operate/metrics.md and the Grafana board, from the declarations. `python -m dalston_queue.metrics` writes both."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from dalston_queue.metrics import nodes, processes, queues, tasks
from dalston_queue.metrics.declare import DECLARED, Metric

GROUPS: tuple[tuple[str, str], ...] = (
    ("Queues, tasks and workers", "metrics/collector.py"),
    ("Transitions and times of tasks", "jobs/"),
    ("Orchestrator", "orchestrator/"),
    ("Web", "web"),
    ("Nodes", "supervisor/"),
)
MODULES = (nodes, processes, queues, tasks)  # importing them declares all metrics

HEAD = """# Metrics

Each process serves Prometheus metrics on a port of its own. This page is made from the declarations in
`dalston_queue/metrics/` by `python -m dalston_queue.metrics`, which also writes `deploy/grafana/dalston.json`; a test
compares both. [Alerts](alerts.md) has the rules, and how they reach you.

| process | where | who may read it |
|---|---|---|
| web | `/metrics` on its port | a request with `DALSTON_METRICS_TOKEN` as its bearer token, or from a network of `DALSTON_METRICS_NETWORKS`; by default none, in development this machine |
| orchestrator | `/metrics` on `DALSTON_METRICS_ADDRESS`, or `--metrics ADDRESS:PORT` | everything that reaches the port: bind it to loopback or to the network of your Prometheus |
| housekeeping | `/metrics` on `DALSTON_METRICS_ADDRESS` | the same |
| supervisor | `/metrics` on `http` of its node.yaml, or `--http ADDRESS:PORT` | the same |

`./dev up` opens all of them on loopback, and writes `prometheus.yml` with their addresses and the rules into its data folder:
`prometheus --config.file=var/prometheus.yml --storage.tsdb.path=var/prometheus`.

Counters and histograms count in the process where it happens: add them up with `sum`. The gauges of the first table are read
from the dashboard's snapshot, and each web, orchestrator and housekeeping process serves all of them: take the `max`. A reading is shared by
all scrapes within 5 s. It takes the same number of round trips to Redis whatever waits there (one more for each queue with
running tasks), and a few bounded queries of Postgres; nothing is scanned. What a server that does not answer would tell is
absent, not 0. Label values are bounded: past 100 queues, those without engines and tasks share `other`.
"""


def grouped() -> Iterator[tuple[str, list[Metric]]]:
    """The metrics of each section of the page, by name."""
    left = sorted(DECLARED.values(), key=lambda metric: metric.name)
    for title, mark in GROUPS:
        mine = [metric for metric in left if metric.set_in.startswith(mark) or metric.served_by == mark]
        left = [metric for metric in left if metric not in mine]
        yield title, mine
    if left:
        raise ValueError(f"no section of docs/operate/metrics.md has {[metric.name for metric in left]}")


def docs_page() -> str:
    parts = [HEAD]
    for title, metrics in grouped():
        rows = "\n".join(metric.row for metric in metrics)
        parts.append(
            f"## {title}\n\n| metric | type | meaning | labels | set in | served by |\n|---|---|---|---|---|---|\n{rows}\n"
        )
    return "\n".join(parts)


# --- Grafana ------------------------------------------------------------------------------------------------------
WIDTH, HEIGHT = 8, 7
COLUMNS = 24 // WIDTH
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


def board() -> dict[str, Any]:
    """One panel for each metric, in rows of the same sections as the page."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, metrics in grouped():
        panels.append({"type": "row", "title": title, "gridPos": {"h": 1, "w": 24, "x": 0, "y": y}, "panels": []})
        y += 1
        for index, metric in enumerate(metrics):
            place = {"h": HEIGHT, "w": WIDTH, "x": WIDTH * (index % COLUMNS), "y": y + HEIGHT * (index // COLUMNS)}
            panels.append(_panel(metric, place))
        y += HEIGHT * (-(-len(metrics) // COLUMNS))
    for number, panel in enumerate(panels, 1):
        panel["id"] = number
    variable = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    return {
        "title": "Dalston",
        "uid": "dalston",
        "tags": ["dalston"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [variable]},
        "panels": panels,
    }


def _panel(metric: Metric, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + index), "datasource": DATASOURCE, "expr": expr, "legendFormat": legend}
        for index, (expr, legend) in enumerate(queries(metric))
    ]
    return {
        "type": "timeseries",
        "title": metric.name.removeprefix("dalston_"),
        "description": metric.help,
        "datasource": DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": _unit(metric), "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list"}, "tooltip": {"mode": "multi"}},
        "targets": targets,
    }


def queries(metric: Metric) -> Sequence[tuple[str, str]]:
    """PromQL and legend of the panel of a metric."""
    labels = list(metric.labels)
    legend = " ".join(f"{{{{{label}}}}}" for label in labels)
    by = f" by ({', '.join(labels)})" if labels else ""
    if metric.kind == "histogram":
        first = [label for label in labels if label != "route"][:1]
        groups = ", ".join(["le", *first])
        return [
            (
                f"histogram_quantile({share}, sum by ({groups}) (rate({metric.name}_bucket[5m])))",
                f"{name} {' '.join(f'{{{{{label}}}}}' for label in first)}".strip(),
            )
            for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
        ]
    if metric.kind == "counter":
        # What is read from Redis is the same in each process; what a process counts is its own.
        total = "max" if metric.set_in == "metrics/collector.py" else "sum"
        return [(f"{total}{by} (rate({metric.name}[5m]))", legend)]
    if metric.set_in == "metrics/collector.py":
        return [(f"max{by} ({metric.name})", legend)]
    return [(metric.name, f"{{{{instance}}}} {legend}".strip())]


def _unit(metric: Metric) -> str:
    if metric.name.endswith("_ratio"):
        return "percentunit"
    if metric.name.endswith("_seconds"):
        return "s"
    return "ops" if metric.kind == "counter" else "short"


def board_text() -> str:
    return json.dumps(board(), indent=1) + "\n"

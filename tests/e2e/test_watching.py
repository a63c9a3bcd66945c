"""A whole running system is watched: a real Prometheus scrapes it, and a collector of our own gets its traces.

Every metric has samples, every rule has an answer, and the trace of a job is one tree.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from dalston_queue.alerts.page import expression
from dalston_queue.alerts.table import ALERTS
from dalston_queue.metrics.declare import DECLARED
from dalston_queue.metrics.nodes import GPU
from dalston_queue.metrics.page import MODULES, queries
from tests.api.webhooks.receiver import receiving
from tests.conftest import ROOT
from tests.e2e.conftest import Up
from tests.support import Spawned, need_tool, reserve_port, wait_until
from tests.tracing.collector import Collector, Span, below

assert MODULES, "importing them declares all metrics"

ENV = {
    "DALSTON_MEDIUM_TO_HIGH_S": "1",
    "DALSTON_PROMOTE_INTERVAL_S": "1",
    "DALSTON_BACKOFF_BASE_S": "0",
    "DALSTON_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8",
    "OTEL_BSP_SCHEDULE_DELAY": "200",
}
TASKS: list[dict[str, Any]] = [
    *({"task_type": "echo", "priority": priority} for priority in ("high", "medium", "low") for _ in range(4)),
    {"task_type": "fail", "max_retries": 1},
    {"task_type": "fail", "parameters": {"how": "reject"}},
    *({"task_type": "unserved", "priority": priority} for priority in ("high", "medium", "low")),
]
WITHOUT_VALUE = {
    "DalstonQueueStalled": "it has a value only for queues in which nothing ended for minutes",
}
"""Rules that rightly have no value in a system that is well, and why."""

WITHOUT_SAMPLES = dict.fromkeys(
    (family.metric.name for family in GPU.values()),
    "a supervisor reads GPUs only for engines that need one: tests/supervisor/gpu/test_node.py has such a node",
)
"""Metrics that this system rightly does not have, and why."""


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with receiving() as receiver:
        yield Collector(receiver)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("up")
    one = Up(folder / "data", reserve_port(), folder)
    try:
        one.ready(env={**ENV, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.receiver.port}"})
        yield one
    finally:
        one.reap()


class Prometheus:
    def __init__(self, process: Spawned, port: int) -> None:
        self.process = process
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}/api/v1", timeout=40)

    def ask(self, path: str, **query: str) -> Any:
        answer = self.http.get(path, params=query)
        body = answer.json()
        assert body["status"] == "success", (path, query, body)
        assert not body.get("warnings"), (path, query, body)
        return body["data"]

    def value(self, promql: str) -> list[dict[str, Any]]:
        return list(self.ask("/query", query=promql)["result"])

    def names(self) -> set[str]:
        return set(self.ask("/label/__name__/values"))


@pytest.fixture(scope="module")
def prometheus(system: Up, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """On the configuration that `./dev up` wrote, scraping each second."""
    program, folder, port = need_tool("prometheus"), tmp_path_factory.mktemp("prometheus"), reserve_port()
    config = json.loads((system.data / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    (folder / "prometheus.yml").write_text(json.dumps(config))
    argv = [program, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
    process = Spawned([*argv, f"--web.listen-address=127.0.0.1:{port}"], folder / "log", {})
    one = Prometheus(process, port)
    try:
        wait_until(lambda: _ready(one), what=lambda: process.output)
        _work(system)  # now: a rate is of what happens while it watches
        yield one
    finally:
        one.http.close()
        process.stop()
        process.reap()


def _client(system: Up) -> httpx.Client:
    headers = {"Authorization": f"Bearer {system.env['DALSTON_TOKEN']}"}
    return httpx.Client(base_url=system.env["DALSTON_URL"], headers=headers, timeout=40)


def _work(system: Up) -> None:
    with _client(system) as api:
        for task in TASKS:
            api.post("/api/v1/tasks", json=task).raise_for_status()


def _ready(one: Prometheus) -> bool:
    try:
        return len(one.value("up == 1")) == 4
    except (httpx.TransportError, ValueError):
        return False


def test_every_process_is_scraped(prometheus: Prometheus) -> None:
    found = {each["labels"]["process"]: each["lastError"] for each in prometheus.ask("/targets")["activeTargets"]}
    assert found == {"web": "", "orchestrator-1": "", "housekeeping": "", "node-1": ""}


def test_every_declared_metric_has_samples(prometheus: Prometheus) -> None:
    wanted = {
        f"{name}_count" if metric.kind == "histogram" else name
        for name, metric in DECLARED.items()
        if name not in WITHOUT_SAMPLES
    }
    assert not WITHOUT_SAMPLES.keys() & prometheus.names(), "the reason is none any more"
    # Of a few, the first sample comes with the first run of a duty, promotion or retry.
    wait_until(lambda: wanted <= prometheus.names(), 60, lambda: f"without samples: {wanted - prometheus.names()}")


def test_every_dalston_metric_is_declared(prometheus: Prometheus) -> None:
    ours = {name for name in prometheus.names() if name.startswith(("dalston_", "DCGM_"))}
    known = set(DECLARED) | {
        f"{name}_{end}" for name, metric in DECLARED.items() if metric.kind == "histogram"
        for end in ("bucket", "count", "sum")
    }  # fmt: skip
    created = {re.sub(r"(_total)?$", "_created", name, count=1) for name in DECLARED}
    assert ours - known - created == set()


OF_PROMETHEUS = {"__name__", "instance", "job", "process", "le"}


def test_labels_and_their_values_are_those_of_the_page(prometheus: Prometheus) -> None:
    """Where the page lists the values, no other may be there."""
    for name, metric in DECLARED.items():
        listed = {
            label: set(values.split(", "))
            for label, values in metric.labels.items()
            if re.fullmatch(r"\w+(, \w+)*", values)
        }
        exposed = f"{name}_count" if metric.kind == "histogram" else name
        for series in prometheus.ask("/series", **{"match[]": exposed}):
            assert series.keys() - OF_PROMETHEUS == metric.labels.keys(), series
            assert {label for label, known in listed.items() if series[label] not in known} == set(), series


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_rule_has_an_answer(prometheus: Prometheus, alert: Any) -> None:
    prometheus.ask("/query", query=expression(alert))
    for metric in set(re.findall(r"\b(?:dalston|DCGM)_\w+", alert.promql)):
        assert metric in DECLARED, metric
        wait_until(lambda: prometheus.value(f"count({metric})"), 60, f"samples of {metric}")  # noqa: B023
    if alert.name not in WITHOUT_VALUE:
        wait_until(lambda: prometheus.value(alert.promql), 60, f"a value of {alert.promql}")


def test_its_rules_are_loaded_and_evaluated(prometheus: Prometheus) -> None:
    def rules() -> list[dict[str, Any]]:
        [group] = prometheus.ask("/rules")["groups"]
        found = list(group["rules"])
        return found if all(rule["health"] != "unknown" for rule in found) else []

    found = wait_until(rules, what="an evaluation of each rule")
    assert {rule["name"]: (rule["health"], rule.get("lastError", "")) for rule in found} == {
        alert.name: ("ok", "") for alert in ALERTS
    }


def test_every_query_of_the_board_is_answered(prometheus: Prometheus) -> None:
    for metric in DECLARED.values():
        for promql, _ in queries(metric):
            prometheus.ask("/query", query=promql)


TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
STAGES = [
    {"stage": "first", "queue": "echo"},
    {"stage": "second", "queue": "fail", "after": ["first"], "required": False, "max_retries": 1},
    {"stage": "third", "queue": "echo", "after": ["second"]},
]
# Four deliveries: the second stage has two attempts.
TREE = {
    CALLER: ["web submit"],
    "web submit": ["orchestrator wait"] * 4 + ["orchestrator webhook"],
    "orchestrator wait": ["engine run"] * 4 + ["orchestrator apply"] * 4,
    "engine run": ["engine settle"] * 4,
}


def test_the_trace_of_a_job_is_one_tree_from_all_processes(system: Up, collector: Collector) -> None:
    """A stage that fails, is retried and fails again is among its stages; its caller has a span, and gets a webhook."""
    make_secret = [sys.executable, "manage.py", "webhook", "secret", "--project", "default"]
    env = {**os.environ, **system.env, "DALSTON_DEV": "1"}
    subprocess.run(make_secret, cwd=ROOT, env=env, check=True, capture_output=True)
    with receiving() as hook, _client(system) as api:
        job = {"name": "traced", "stages": STAGES, "callback_url": hook.url}
        caller = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
        job_id = api.post("/api/v1/jobs", json=job, headers=caller).raise_for_status().json()["job_id"]
        wait_until(lambda: hook.got, 60, lambda: f"the webhook: {api.get(f'/api/v1/jobs/{job_id}').text}")
        [got] = hook.got

    def spans() -> list[Span]:
        return collector.spans_of(TRACE)

    wait_until(lambda: below(spans()) == TREE, 60, lambda: f"one tree: {below(spans())}")
    found = spans()
    assert len({span.id for span in found}) == len(found)
    [webhook] = [span for span in found if span.name == "webhook"]
    assert got.headers["traceparent"] == f"00-{TRACE}-{webhook.id}-01"
    assert {span.about["dalston.job_id"] for span in found} == {job_id}
    failed = [span for span in found if span.failed]
    assert sorted(map(str, failed)) == ["engine run"] * 2 + ["orchestrator apply"] * 2, "of both attempts"
    assert {span.about["error.type"] for span in failed} == {"failed", "error"}
    assert all(span.seconds >= 0 for span in found)

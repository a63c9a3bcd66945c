"""What another program writes to Redis breaks no page, no answer and no duty: it is left out where it is read."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from django.test import Client
from django.utils import timezone

from dalston_queue.broker import Broker
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.types import EngineState, NodeState
from dalston_queue.broker.protocol.validate import counters, number, timed
from dalston_queue.dashboard.overview.read import latest
from dalston_queue.jobs.queries.progress import parse_progress
from dalston_queue.models import Task
from dalston_queue.orchestrator.duties.housekeeping import mirror_registry
from dalston_queue.orchestrator.duties.samples import take_samples
from tests.jobs.make import single
from tests.orchestrator.support import Steps, engine

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.keeps_keys]
HTML = "<img src=x onerror=alert(1)>"
HUGE = "9" * 400


@pytest.fixture(autouse=True)
def fresh_overview() -> Iterator[None]:
    latest._read_at, latest._overview = 0.0, None
    yield
    latest._read_at, latest._overview = 0.0, None


@pytest.fixture
def running(broker: Broker) -> Iterator[Task]:
    """A running task of an engine on a node."""
    steps = Steps(broker)
    task = single()
    steps.poll()
    with engine(broker, name="node.demo.0.boot") as consumer:
        consumer.claim()
        steps.drain()
        beat = EngineBeat(engine_id="node.demo.0.boot", state=EngineState.READY, queues=("echo",))
        broker.registry.beat_node("node", NodeState.ACTIVE, [beat])
        yield task
        consumer.release()


def _write(broker: Broker, task: Task) -> None:
    """Writes that were seen to break pages."""
    home, keys = broker.home, broker.home.keys
    for name in (HTML, "a b", "ä".encode(), b"\xff\xfe", "../..", "x" * 300):
        text = name if isinstance(name, str) else name.decode("latin-1")
        home.command("SADD", keys.nodes(), name)
        home.command("SADD", keys.engines(), name)
        home.command("HSET", keys.node(text), "beat", 1, "at", 1, "state", "active", "info", "{}")
    home.command("HSET", keys.node("huge"), "beat", HUGE, "at", HUGE, "state", "active", "info", "{}")
    home.command("SADD", keys.nodes(), "huge")
    tasks = [{"task_id": str(task.id), "queue": HTML, "fraction": 1e308, "started_at_ms": int(HUGE)}]
    for number_, info in enumerate(({"tasks": tasks}, {"tasks": [{"task_id": str(task.id), "fraction": -1e308}]})):
        report = {
            "engine_id": f"e{number_}", "state": "ready", "queues": ["echo", HTML], "capabilities": [HTML],
            "capacity": 10**18, "info": info,
        }  # fmt: skip
        home.command("SADD", keys.engines(), f"e{number_}")
        fields: list[str | int] = ["report", json.dumps(report), "node", HTML, "at", 1, "beat", 1]
        home.command("HSET", keys.engine(f"e{number_}"), *fields)
    home.command("HSET", keys.counters("echo"), "completed", HUGE, "appended", "-1", HTML, "1")
    home.command("SADD", keys.stages(), HTML)
    record = home.command("HGET", keys.tasks("echo"), str(task.id)).decode().split("\t")
    for progress in ('{"fraction": 1e308, "message": 1}', f'{{"fraction": {HUGE}}}', '{"fraction": NaN}'):
        assert parse_progress(progress).fraction in (1.0, None)
    record[4] = HTML  # its job
    record[-1] = f'{{"fraction": {HUGE}}}'
    home.command("HSET", keys.tasks("echo"), str(task.id), "\t".join(record))


def test_no_page_answer_metric_or_duty_breaks(broker: Broker, running: Task, admin_client: Client) -> None:
    _write(broker, running)
    pages = ["/", "/nodes/", "/nodes/node/", "/queues/echo/", "/limits/"]
    pages += [f"/jobs/{running.job_id}/", f"/tasks/{running.id}/"]
    api = ["/api/v1/nodes", "/api/v1/queue/stats", "/api/v1/streams", f"/api/v1/tasks/{running.id}/why"]
    api += [f"/api/v1/jobs/{running.job_id}", "/api/v1/streams/echo/pending"]
    answers = {path: admin_client.get(path) for path in (*pages, *api, "/metrics")}
    assert {path: each.status_code for path, each in answers.items() if each.status_code != 200} == {}
    for path in pages:
        assert HTML not in answers[path].content.decode(), path
    mirror_registry(timezone.now())
    take_samples(timezone.now())


@pytest.mark.parametrize("raw", [HUGE.encode(), b"9" * 5000, b"-1", b"1e3", b"", b"0x1", "\u0661".encode()])
def test_what_is_no_number_of_ours_is_left_out(raw: bytes) -> None:
    assert number(raw) is None
    assert counters([(b"completed", raw), (b"failed", b"3")]) == {"failed": 3}
    assert timed(raw + b" message") is None

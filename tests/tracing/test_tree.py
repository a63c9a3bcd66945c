"""One job's trace is one tree, made by the spans of all processes; without OTEL_* variables nothing is recorded."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.utils import timezone

from dalston_queue.accounts.tokens import issue
from dalston_queue.models import Job, Project, WebhookSecret
from tests.api.webhooks.receiver import Receiver, receiving
from tests.conftest import ROOT
from tests.orchestrator.processes import FAST
from tests.support import Spawned, wait_until
from tests.tracing.collector import Collector, Seen, collecting
from tests.web import Web

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.keeps_keys]

MANIFEST = "id: traced\nstages: [traced, later]\ncommand: [python, engine.py]\n"
CODE = """
from engines.sdk import Engine, Task
from opentelemetry import trace

class Traced(Engine):
    def run(self, task: Task) -> object:
        with trace.get_tracer("author").start_as_current_span("decode"):
            if task.parameters.get("fail") and task.attempt == 1:
                raise ValueError("a secret message")
        return {"traceparent": task.traceparent}

Traced().serve()
"""
CALLER, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SECRET = "a secret parameter"


class System:
    """Web, orchestrator and engine, and the servers that they call."""

    def __init__(self, web: Web, token: str, collector: Collector, receiver: Receiver) -> None:
        self.web, self.collector, self.receiver = web, collector, receiver
        self.api = httpx.Client(base_url=web.url, headers={"Authorization": f"Bearer {token}"}, timeout=40)

    def run(self, traceparent: str = "", **job: Any) -> Job:
        """Submits a job of two stages and waits for its end and its webhook."""
        stages = [{"stage": "traced", "parameters": {"text": SECRET, **job}}, {"stage": "later", "after": ["traced"]}]
        body = {"name": "traced", "stages": stages, "callback_url": self.receiver.url}
        headers = {"traceparent": traceparent} if traceparent else {}
        answer = self.api.post("/api/v1/jobs", json=body, headers=headers)
        assert answer.status_code == 201, answer.text
        calls = len(self.receiver.got)
        wait_until(lambda: len(self.receiver.got) > calls, 60, what="its webhook")
        return Job.objects.get(pk=answer.json()["job_id"])


@pytest.fixture
def system(
    spawn: Callable[..., Spawned], process_env: dict[str, str], database_url: str, tmp_path: Path
) -> Iterator[Callable[..., System]]:
    started: list[System] = []
    with collecting() as collector, receiving() as receiver:

        def start(**variables: str) -> System:
            project = Project.objects.create(name="traced")
            WebhookSecret.objects.create(project=project, text="whsec_test", created_at=timezone.now())
            token = issue(project, "t", ["submit", "read"], actor="test")[1]
            env = {**process_env, **FAST, "DALSTON_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8", **variables}
            env |= {name: text.replace("COLLECTOR", collector.url) for name, text in variables.items()}
            server = {**env, "DATABASE_URL": database_url}
            (tmp_path / "engine.py").write_text(CODE)
            (tmp_path / "engine.yaml").write_text(MANIFEST)
            spawn("-m", "engines.sdk", "run", str(tmp_path / "engine.yaml"), env=env)
            spawn("manage.py", "runorchestrator", env=server).wait_for("orchestrator ready")
            started.append(System(Web(server, tmp_path / "web.log"), token, collector, receiver))
            return started[-1]

        yield start
        for each in started:
            each.api.close()
            each.web.process.stop()
            each.web.process.reap()


ON = {"OTEL_EXPORTER_OTLP_ENDPOINT": "COLLECTOR", "OTEL_BSP_SCHEDULE_DELAY": "100"}


def tree(collector: Collector, trace_id: str, count: int) -> dict[str, list[Seen]]:
    """The spans of a trace by name, when there are as many."""
    wait_until(
        lambda: len([span for span in collector.spans if span.trace_id == trace_id]) >= count,
        what=lambda: f"{count} spans of {trace_id}: {[(s.name, s.trace_id) for s in collector.spans]}",
    )
    found: dict[str, list[Seen]] = {}
    for span in collector.spans:
        if span.trace_id == trace_id:
            found.setdefault(span.name, []).append(span)
    return found


def test_one_job_is_one_tree_from_all_processes(system: Callable[..., System]) -> None:
    running = system(**ON)
    job = running.run(f"00-{CALLER}-{PARENT}-01", fail=True)
    assert job.trace_id == CALLER
    # Two stages, the first in two attempts: three runs.
    found = tree(running.collector, CALLER, 1 + 3 * 5 + 1)
    counts = {name: len(spans) for name, spans in found.items()}
    assert counts == {"submit": 1, "wait": 3, "run": 3, "decode": 3, "settle": 3, "apply": 3, "webhook": 1}
    [submit] = found["submit"]
    assert submit.parent_id == PARENT, "the caller's span"
    for name in ("wait", "run", "apply", "webhook"):
        assert {span.parent_id for span in found[name]} == {submit.span_id}, name
    runs = {span.span_id for span in found["run"]}
    assert {span.parent_id for span in found["settle"]} == {span.parent_id for span in found["decode"]} == runs
    services = {name: {span.service for span in spans} for name, spans in found.items()}
    assert services["submit"] == {"dalston-web"}
    assert services["wait"] == services["apply"] == services["webhook"] == {"dalston-orchestrator"}
    assert services["run"] == services["settle"] == services["decode"] == {"dalston-engine"}
    assert sorted(span.failed or "" for span in found["run"]) == ["", "", "ValueError"]
    assert sorted(span.failed or "" for span in found["apply"]) == ["", "", "error"]
    assert all(span.start_ns <= span.end_ns for spans in found.values() for span in spans)
    assert {span.attributes["dalston.job_id"] for span in found["run"]} == {str(job.id)}
    assert sorted(span.attributes["dalston.attempt"] for span in found["apply"]) == [1, 1, 2]
    ours = str([span for span in running.collector.spans if span.name != "decode"])  # that one is the author's
    assert SECRET not in ours and "a secret message" not in ours
    sent = {name.lower(): value for name, value in running.receiver.got[-1].headers.items()}
    assert sent["traceparent"] == f"00-{CALLER}-{found['webhook'][0].span_id}-01"


def test_without_a_caller_the_submission_is_the_root_and_its_trace_is_that_of_the_job(
    system: Callable[..., System],
) -> None:
    running = system(**ON)
    job = running.run()
    found = tree(running.collector, job.trace_id, 1 + 2 * 5 + 1)
    assert [span.parent_id for span in found["submit"]] == [""]
    ids = {span.span_id for spans in found.values() for span in spans}
    assert all(span.parent_id in ids for spans in found.values() for span in spans if span.name != "submit")


def test_a_caller_that_does_not_sample_is_obeyed_and_its_context_passed_on(system: Callable[..., System]) -> None:
    running = system(**ON)
    running.run(f"00-{CALLER}-{PARENT}-00")
    sampled = running.run(f"00-{CALLER[::-1]}-{PARENT}-01")
    tree(running.collector, sampled.trace_id, 12)
    assert {span.trace_id for span in running.collector.spans} == {sampled.trace_id}
    sent = [{name.lower(): value for name, value in got.headers.items()} for got in running.receiver.got]
    assert sent[0]["traceparent"].startswith(f"00-{CALLER}-") and sent[0]["traceparent"].endswith("-00")


def test_without_the_variables_the_callers_context_arrives_everywhere_and_no_span_is_made(
    system: Callable[..., System],
) -> None:
    running = system()
    caller = f"00-{CALLER}-{PARENT}-01"
    job = running.run(caller)
    result = running.api.get(f"/api/v1/jobs/{job.id}").json()
    task = next(task for task in result["tasks"] if task["stage"] == "traced")
    answer = running.api.get(f"/api/v1/tasks/{task['task_id']}").json()
    assert answer["result"] == {"traceparent": caller}
    sent = {name.lower(): value for name, value in running.receiver.got[-1].headers.items()}
    assert sent["traceparent"] == caller
    assert running.collector.spans == []


IMPORTS = """
import sys, django
django.setup()
import dalston_queue.orchestrator.loop, dalston_queue.api.api, engines.sdk.serve
from dalston_queue.tracing import spans
with spans.span("run", "", {}) as span: span.failed("x")
spans.record("wait", "", 1.0, 2.0, {})
# Not all of it: redis-py imports the metrics where it finds the package.
ours = ("opentelemetry.sdk.trace", "opentelemetry.exporter", "google.protobuf")
print(sorted(name for name in sys.modules if name.startswith(ours)))
"""


@pytest.mark.parametrize(
    "variables", [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}]
)
def test_nothing_of_opentelemetry_is_imported_unless_it_is_asked_for(
    process_env: dict[str, str], variables: dict[str, str]
) -> None:
    env = {**process_env, **variables, "DJANGO_SETTINGS_MODULE": "dalston_site.settings"}
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_without_the_extra_one_warning_says_so(process_env: dict[str, str]) -> None:
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from dalston_queue.tracing import spans\n"
        "assert not spans.is_on() and not spans.is_on()"
    )
    env = {**process_env, "OTEL_TRACES_EXPORTER": "otlp"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    assert done.stderr.count("the extra `otel` is not installed") == 1

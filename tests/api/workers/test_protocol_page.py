"""docs/worker-protocol.md and docs/webhooks.md: their examples run."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command
from django.utils import timezone

from dalston_queue.api.requests.worker_polling import POLL_SLOTS
from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.messages import TaskMessage
from dalston_queue.ids import uuid7
from dalston_queue.models import ApiToken, Job, Project, WebhookSecret
from tests.api.conftest import Api
from tests.api.documented import ROUTES
from tests.docs.blocks import blocks_of
from tests.support import Spawned, need_tool, wait_until
from tests.web import ROOT, Web

PAGE = (ROOT / "docs" / "worker-protocol.md").read_text()


@pytest.fixture
def start_worker(web: Web, token_for: Callable[..., str], tmp_path: Path) -> Iterator[Callable[..., Spawned]]:
    """Starts the page's worker on these queues."""
    [program] = blocks_of("docs/worker-protocol.md", "python")
    script = tmp_path / "worker.py"
    script.write_text(program)
    env = {"DALSTON_URL": web.url, "DALSTON_TOKEN": token_for("worker"), "PATH": "/usr/bin:/bin"}
    with ExitStack() as ending:

        def start(*queues: str) -> Spawned:
            worker = Spawned([sys.executable, str(script), *queues], tmp_path / "log", env)
            ending.callback(worker.reap)
            return worker

        yield start


@pytest.mark.django_db(transaction=True)
def test_the_worker_of_the_page_runs_tasks_and_leaves(web_broker: Broker, start_worker: Callable[..., Spawned]) -> None:
    worker = start_worker("page", "other")
    tasks = [append(web_broker, "page", n) for n in range(3)]
    wait_until(lambda: web_broker.snapshot(["page"]).queues[0].counters.get("completed") == len(tasks), what="all done")
    assert workers(web_broker) == [("http", ("page", "other"))]
    assert worker.stop(signal.SIGTERM, 25) == 0, worker.output
    assert workers(web_broker) == []


@pytest.mark.django_db(transaction=True)
def test_the_worker_of_the_page_leaves_when_an_operator_drains_it(
    web: Web, web_broker: Broker, token_for: Callable[..., str], start_worker: Callable[..., Spawned]
) -> None:
    worker = start_worker("drained")
    wait_until(lambda: workers(web_broker), what="it has registered")
    [engine] = [each for each in web_broker.registry.engines() if each.info.get("engine") == "example"]
    with web.client(token_for("operate")) as operator:
        operator.post(f"/api/v1/workers/{engine.engine_id}/drain", json={}).raise_for_status()
    assert worker.wait(40) == 0, worker.output  # a poll that begins after the command ends with it
    assert workers(web_broker) == []


def workers(broker: Broker) -> list[tuple[str, tuple[str, ...]]]:
    engines = [engine for engine in broker.registry.engines() if engine.info.get("engine") == "example"]
    return [(engine.node_id, engine.queues) for engine in engines]


def append(broker: Broker, queue: str, n: int) -> str:
    task_id = str(uuid7())
    broker.append(
        [
            TaskMessage(
                task_id=task_id,
                job_id=str(uuid7()),
                queue=queue,
                task_type=queue,
                attempt=1,
                parameters={"n": n},
                timeout_ms=60_000,
            )
        ]
    )
    return task_id


def test_past_the_limit_a_poll_gets_work_but_may_not_wait(broker: Broker, token_for: Callable[..., str]) -> None:
    api = Api(token_for("worker"))
    worker_id = api.post("/internal/workers/register", {"stages": ["echo"]}).json()["worker_id"]
    poll = f"/internal/workers/{worker_id}/poll?wait=5"
    with ExitStack() as taken:
        assert all(taken.enter_context(POLL_SLOTS.take()) for _ in range(settings.DALSTON_MAX_WAITING_POLLS))
        refused = api.post(poll, {"held": []})
        assert (refused.status_code, refused.json()["code"], refused["Retry-After"]) == (503, "too_many_polls", "2")
        task_id = append(broker, "echo", 1)
        assert [task["task_id"] for task in api.post(poll, {"held": []}).json()["tasks"]] == [task_id]


def test_the_commands_of_the_pages_work(project: Project) -> None:
    Project.objects.create(name="demo")
    [worker_token] = blocks_of("docs/worker-protocol.md", "")
    [webhook_secret] = re.findall(r"^manage.py .*", (ROOT / "docs" / "webhooks.md").read_text(), re.MULTILINE)
    for line in (worker_token, webhook_secret):
        out = StringIO()
        call_command(*shlex.split(line)[1:], stdout=out, stderr=StringIO())
        assert out.getvalue().startswith(("dal_", "whsec_"))
    assert ApiToken.objects.get(name="cpu-box").scopes == ["worker"]


@pytest.mark.django_db(transaction=True)
def test_the_request_of_the_webhooks_page_is_accepted(
    web: Web, token_for: Callable[..., str], project: Project
) -> None:
    WebhookSecret.issue(project, timezone.now())
    [block] = re.findall(r"^curl .*?'$", (ROOT / "docs" / "webhooks.md").read_text(), re.MULTILINE | re.DOTALL)
    env = {"DALSTON_URL": web.url, "DALSTON_TOKEN": token_for("submit"), "PATH": os.environ["PATH"]}
    need_tool("curl")
    answer = subprocess.run(["sh", "-c", block], env=env, capture_output=True, check=True).stdout
    job = Job.objects.get(pk=json.loads(answer)["job_id"])
    assert job.callback_url == "https://example.com/dalston"


def test_the_page_names_every_call() -> None:
    for method, path in ROUTES:
        if path.startswith("/internal/workers"):
            short = path.removeprefix("/internal/workers")
            assert f"`{short}" in PAGE or f"`{method} {short}`" in PAGE

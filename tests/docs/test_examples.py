"""Every example on every page is run: here, or by the test in BY. NOT_RUN has the reason for each other one."""

from __future__ import annotations

import json
import os
import re
import shlex
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest
from django.core.management import call_command
from django.db import connections
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.audit.record import audited
from dalston_queue.broker import connect
from dalston_queue.jobs.submit import spec
from dalston_queue.jobs.webhooks import message as webhook_message
from dalston_queue.models import ApiToken, AuditEntry, DeadLetter, Project
from tests.docs.blocks import ROOT, Block, all_blocks
from tests.orchestrator.support import Steps, engine, run_to_the_end
from tests.web import Web

# Pages whose examples a test of their own runs: it must read the blocks of each language.
BY = {
    "client/README.md": "tests/client/test_page.py",
    "docs/client.md": "tests/client/test_page.py",
    "docs/operate/backup.md": "tests/operate/test_machine.py",
    "docs/operate/failover.md": "tests/operate/test_failover.py",
    "docs/operate/install.md": "tests/operate/test_machine.py",
    "docs/operate/uninstall.md": "tests/operate/test_machine.py",
    "docs/operate/upgrade.md": "tests/operate/test_machine.py",
    "docs/transcription.md": "tests/api/transcription/test_openai.py",
    "docs/order.md": "tests/client/test_page.py",
    "docs/redis-keys.md": "tests/supervisor/test_acl.py",
    "docs/worker-protocol.md": "tests/api/workers/test_protocol_page.py",
    "docs/write-an-engine.md": "tests/engines/test_tutorial.py",
}
# By page and opening words: why it is not run here.
NOT_RUN = {
    ("README.md", "./dev up"): "starts and tests everything: tests/e2e/test_up.py and CI do it",
    ("README.md", "samples/hello.wav"): "run by tests/e2e/test_up.py",
    ("ARCHITECTURE.md", "dalston_site ─"): "a drawing of the import rules, which ./dev check runs",
    ("ARCHITECTURE.md", " client "): "a drawing of the way of a task",
    ("CONTRIBUTING.md", "./dev check"): "the two commands that this very run is a part of",
    ("docs/audit.md", "hash = SHA-256"): "a formula; tests/audit/test_chain.py computes it",
    ("docs/benchmarks.md", "./dev bench"): "takes minutes; tests/bench runs them on a small scale",
    ("docs/operate/sizing.md", "./dev bench"): "the same",
    ("docs/broker.md", "append ─▶"): "a drawing",
    ("docs/broker.md", "broker = connect"): "a sketch; tests/broker/engine/test_claim.py makes the same calls",
    ("docs/client.md", "pip install"): "an installation: ./dev has made it before it runs any test",
    ("docs/lifecycle.md", "stateDiagram"): "a drawing; tests/jobs/lifecycle/test_states.py compares it with the code",
    (
        "docs/audio-engines.md",
        "engines: [",
    ): "paths of an installed node; tests/supervisor/test_config.py reads such files",
    (
        "docs/transcription.md",
        "-F file=@",
    ): "needs curl; tests/api/transcription/test_upload.py sends the same form",
    ("docs/api.md", "-F file=@"): "the same",
    (
        "docs/operate/containers.md",
        "docker ",
    ): "needs Docker; tests/deploy/test_containers.py runs the same images",
    (
        "docs/operate/kubernetes.md",
        "kubectl ",
    ): "needs a cluster; tests/deploy/test_kubernetes.py reads what is applied",
    ("docs/operate/traces.md", "pip install"): "an installation; tests/e2e/test_watching.py sets the same variable",
    ("docs/operate/traces.md", "httpx.post"): "a line of an engine; tests/tracing/test_ids.py makes the same header",
    ("docs/webhooks.md", "import hashlib"): "run by tests/api/webhooks/test_delivery.py",
}


def reason(block: Block) -> str | None:
    return next((why for (page, words), why in NOT_RUN.items() if block.page == page and words in block.text), None)


RUN = [block for block in all_blocks() if block.page not in BY and reason(block) is None]
SHELL = [block for block in RUN if block.language in ("", "sh")]
JSON = [block for block in RUN if block.language == "json"]
PYTHON = [block for block in RUN if block.language == "python"]


def test_every_block_is_run_or_says_why_not() -> None:
    assert not [str(block) for block in RUN if block not in [*SHELL, *JSON, *PYTHON]]
    for page, test in BY.items():
        read = re.findall(r'blocks_of\("([^"]+)", "(\w*)"\)', (ROOT / test).read_text())
        shown = {(page, block.language) for block in all_blocks() if block.page == page and reason(block) is None}
        assert shown and not shown - set(read), f"{test} does not read them"
    for (page, words), why in NOT_RUN.items():
        assert words in (ROOT / page).read_text(), f"{page} has no {words!r} any more"
        for test in re.findall(r"tests/[\w/.]+\.py", why):
            assert (ROOT / test).exists(), f"{page}: {why}"


class System:
    """A web process, and a thread that runs what is submitted."""

    def __init__(self, web: Web, token: str, project: Project) -> None:
        self.web, self.project = web, project
        self.values = {"DALSTON_URL": web.url, "DALSTON_TOKEN": token}

    def filled(self, command: str) -> str:
        """With the values that a reader would fill in."""
        if "$JOB" in command:
            body = {"name": "example", "stages": [{"stage": "echo"}]}
            made = self.post("/api/v1/jobs?wait=30", body)
            command = command.replace("$JOB", made["job_id"])
        if "dead_letters:replay" in command:
            self.leave_a_dead_letter()
        if "<id>" in command:
            command = command.replace("<id>", str(ApiToken.objects.latest("id").pk))
        if "1234:5f2c…" in command:
            with audited("example", "docs/audit.md", actor="docs"):
                pass
            head = AuditEntry.objects.latest("id")
            command = command.replace("1234:5f2c…", f"{head.pk}:{head.hash}")
        for name, value in self.values.items():
            command = command.replace(f"${name}", value)
        return command

    def leave_a_dead_letter(self) -> None:
        made = self.post("/api/v1/jobs?wait=30", {"name": "example", "stages": [{"stage": "echo"}]})
        values = {"queue": "echo", "cause": "error", "fingerprint": "f"}
        DeadLetter.objects.create(task_id=made["tasks"][0]["task_id"], created_at=timezone.now(), **values)

    def post(self, path: str, body: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.values['DALSTON_TOKEN']}"}
        answer = httpx.post(f"{self.web.url}{path}", json=body, headers=headers, timeout=40)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    def curl(self, arguments: list[str]) -> httpx.Response:
        """What curl does with -H, -d, -X and -N."""
        method, url, content, headers = "", "", None, {}
        rest = iter(arguments)
        for argument in rest:
            if argument == "-H":
                name, _, value = next(rest).partition(":")
                headers[name] = value.strip()
            elif argument == "-d":
                content = next(rest)
            elif argument == "-X":
                method = next(rest)
            elif argument != "-N":
                url = argument
        return httpx.request(
            method or ("GET" if content is None else "POST"), url, content=content, headers=headers, timeout=40
        )


@pytest.fixture
def system(web: Web, transactional_db: None, settings: Settings) -> Iterator[System]:
    settings.DALSTON_REDIS_PREFIX = web.env["DALSTON_REDIS_PREFIX"]
    project = Project.objects.create(name="demo")
    token = ApiToken.issue(project, "docs", ["submit", "read", "operate"])[1]
    broker = connect(os.environ["REDIS_URL"], prefix=settings.DALSTON_REDIS_PREFIX)
    over = threading.Event()

    def work() -> None:
        steps = Steps(broker, "docs")
        with engine(broker, "echo", "split", "transcribe", "notes") as consumer:
            while not over.wait(0.05):
                run_to_the_end(steps, consumer)
        steps.reader.close()
        connections.close_all()

    worker = threading.Thread(target=work)
    worker.start()
    yield System(web, token, project)
    over.set()
    worker.join()
    broker.close()


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_a_shell_example_does_what_it_says(block: Block, system: System) -> None:
    for command in block.commands():
        program, *arguments = shlex.split(system.filled(command))
        if program == "curl":
            answer = system.curl(arguments)
            assert answer.status_code < 300, f"{command}\n{answer.text}"
        elif program == "manage.py":
            call_command(*arguments)
        else:
            pytest.fail(f"{block} runs {program!r}: run it here, or say in NOT_RUN why not")


def is_taken_as_a_job(text: str, system: System) -> None:
    system.post("/api/v1/jobs", json.loads(text))


def is_the_problem_that_is_sent(text: str, system: System) -> None:
    token = ApiToken.issue(system.project, "laptop", ["read"])[1]
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx.post(f"{system.web.url}/api/v1/tasks", json={"task_type": "echo"}, headers=headers, timeout=40)
    assert json.loads(text) == {**answer.json(), "trace_id": json.loads(text)["trace_id"]}


def is_what_a_webhook_says(text: str, _: System) -> None:
    message = msgspec.json.decode(text, type=webhook_message.Message)
    assert json.loads(text) == json.loads(webhook_message.encode(message))


JSON_IS: dict[tuple[str, str], Callable[[str, System], None]] = {
    ("docs/api.md", '"name": "audio"'): is_taken_as_a_job,
    ("docs/api.md", "urn:dalston:problem"): is_the_problem_that_is_sent,
    ("docs/webhooks.md", '"event"'): is_what_a_webhook_says,
}


@pytest.mark.parametrize("block", JSON, ids=str)
def test_a_json_example_is_what_is_taken_or_sent(block: Block, system: System) -> None:
    [check] = [check for (page, words), check in JSON_IS.items() if block.page == page and words in block.text]
    check(block.text, system)


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_a_python_example_runs(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spec, "_builders", {})  # an app of another test may have one of the same name
    names: dict[str, Any] = {}
    exec(compile(block.text, str(block), "exec"), names)
    if "@pipeline" in block.text:
        assert [stage.stage for stage in spec.stages_of("shout", {"channels": 2})] == [
            "prepare",
            "loud_ch0",
            "loud_ch1",
        ]

"""A large result lies in the artifact store: over HTTP its reader, and a worker with it as input, get the value."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from pytest_django import Settings

from dalston_queue.artifacts import Store, open_store
from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.messages import Completed
from dalston_queue.models import JobArtifact
from tests.api.conftest import Api
from tests.orchestrator.support import Steps, engine, run_to_the_end

pytestmark = pytest.mark.django_db(transaction=True)
LARGE = {"text": "word " * 10_000}
STAGES = [{"stage": "first"}, {"stage": "second", "after": ["first"]}]


@pytest.fixture
def store(tmp_path: Path, settings: Settings) -> Store:
    settings.DALSTON_ARTIFACTS_URL = tmp_path.as_uri()
    return open_store(settings.DALSTON_ARTIFACTS_URL)


@pytest.fixture
def job(api: Api, store: Store, broker: Broker) -> str:
    """Its first stage has returned LARGE, by reference; its second waits."""
    made = api.post("/jobs", {"name": "two", "stages": STAGES}).json()
    stored = store.put(io.BytesIO(msgspec.json.encode(LARGE)))
    steps = Steps(broker)
    with engine(broker, "first") as consumer:
        run_to_the_end(steps, consumer, lambda _: Completed(stored.as_result()))
    steps.reader.close()
    return str(made["job_id"])


def first_of(api: Api, job: str) -> str:
    [task] = [task for task in api.get(f"/jobs/{job}").json()["tasks"] if task["stage"] == "first"]
    return f"/tasks/{task['task_id']}"


def test_a_task_is_read_with_its_result_and_a_list_with_references(api: Api, job: str) -> None:
    path = first_of(api, job)
    assert api.get(path).json()["result"] == LARGE
    [listed] = [task for task in api.get("/tasks").json()["items"] if task["stage"] == "first"]
    assert listed["result"].keys() == {"$artifact", "size"}
    assert JobArtifact.objects.get().ref == listed["result"]["$artifact"]


def test_a_result_that_is_too_large_or_gone_stays_a_reference(
    api: Api, job: str, store: Store, settings: Settings
) -> None:
    path = first_of(api, job)
    settings.DALSTON_MAX_RESULT_BYTES = 40_000
    assert api.get(path).json()["result"].keys() == {"$artifact", "size"}
    settings.DALSTON_MAX_RESULT_BYTES = 262_144
    store.delete(JobArtifact.objects.get().ref)
    assert api.get(path).json()["result"].keys() == {"$artifact", "size"}


def test_a_worker_over_http_gets_the_value_as_its_input(job: str, token_for: Callable[..., str]) -> None:
    worker = Api(token_for("worker"))
    made = worker.post("/internal/workers/register", {"stages": ["second"], "capacity": 1}).json()
    [task] = worker.post(f"/internal/workers/{made['worker_id']}/poll", {"held": []}).json()["tasks"]
    assert task["inputs"] == {"first": LARGE}

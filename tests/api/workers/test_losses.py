"""Lost tasks and workers: a task ended by the scanner, and a worker whose keys are gone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis
from pytest_django import Settings

from dalston_queue.api.requests import worker_results
from dalston_queue.broker import Broker
from dalston_queue.models import Task
from dalston_queue.orchestrator.duties.scanner import scan
from tests.api.conftest import Api
from tests.jobs import make
from tests.orchestrator.support import Steps
from tests.support import wait_until


@pytest.fixture
def worker(token_for: Callable[..., str]) -> Api:
    return Api(token_for("worker"))


def register(worker: Api) -> str:
    registered = worker.post("/internal/workers/register", {"stages": ["echo"], "capacity": 1})
    return f"/internal/workers/{registered.json()['worker_id']}"


@pytest.mark.django_db(transaction=True)
def test_the_scanner_ends_an_overdue_task_and_the_late_result_is_refused(
    broker: Broker, worker: Api, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_results, "STORE_TIMEOUT_S", 0.2)
    settings.DALSTON_DEADLINE_GRACE_S = 0
    steps = Steps(broker)
    make.single(timeout_seconds=1)
    steps.poll()
    path = register(worker)
    [task] = worker.post(f"{path}/poll", {"held": []}).json()["tasks"]
    hold = {"task_id": task["task_id"], "attempt": 1}
    wait_until(lambda: scan().repaired, what="its deadline has passed")
    # The attempt has ended, and its end is not stored yet.
    pending = worker.post(f"{path}/result", {**hold, "status": "completed"})
    assert (pending.status_code, pending.json()["code"], pending["Retry-After"]) == (503, "result_pending", "1")
    steps.drain()
    assert Task.objects.get().error_cause == "timeout"
    late = worker.post(f"{path}/result", {**hold, "status": "completed"})
    assert (late.status_code, late.json()["code"]) == (409, "task_lost")
    assert worker.post(f"{path}/heartbeat", {"held": [hold]}).json()["lost"] == [hold]
    steps.reader.close()


def test_a_worker_without_keys_must_register_again(redis_url: str, prefix: str, worker: Api) -> None:
    path = register(worker)
    with redis.Redis.from_url(redis_url) as client:
        client.delete(*client.scan_iter(f"{prefix}:*"))
    for verb in ("poll", "heartbeat"):
        answer = worker.post(f"{path}/{verb}", {"held": []})
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert "Register again" in answer.json()["detail"]
    assert worker.post(f"{register(worker)}/poll", {"held": []}).status_code == 200

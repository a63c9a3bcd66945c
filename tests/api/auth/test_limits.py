"""Rate limits and backpressure: 429 with Retry-After, and no refusal while Redis is down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.utils import timezone

from dalston_queue.api.auth.backpressure import Steps, depths, is_accepted
from dalston_queue.broker import Broker
from dalston_queue.broker.broker import Limit
from dalston_queue.broker.protocol.messages import TaskMessage
from dalston_queue.broker.protocol.types import Priority
from dalston_queue.models import Task
from tests.api.conftest import Api
from tests.jobs import make
from tests.orchestrator.support import Steps as Dispatch
from tests.support import wait_until

STEPS = Steps(10, 50, 100)


@pytest.fixture(autouse=True)
def unknown_depth() -> Iterator[None]:
    depths.forget()
    yield
    depths.forget()


@pytest.mark.parametrize(
    ("waiting", "accepted"),
    [
        (10, {"high", "medium", "low", "listed high", "listed medium", "listed low"}),
        (11, {"high", "listed high", "listed medium", "listed low"}),
        (51, {"high", "listed high"}),
        (101, {"listed high"}),
    ],
)
def test_each_step_is_stricter_than_the_one_before(waiting: int, accepted: set[str]) -> None:
    found = {
        f"{'listed ' if listed else ''}{priority}"
        for listed in (False, True)
        for priority in Priority
        if is_accepted(waiting, priority, STEPS, listed=listed)
    }
    assert found == accepted


def fill(broker: Broker, count: int) -> None:
    broker.append(
        [TaskMessage(task_id=f"t{n}", job_id="j", queue="echo", task_type="echo", attempt=1) for n in range(count)]
    )


def test_a_full_queue_refuses_all_but_high(
    api: Api, broker: Broker, settings: Any, token_for: Callable[..., str]
) -> None:
    settings.DALSTON_BACKPRESSURE_WAITING = 3
    fill(broker, 4)
    answer = api.post("/tasks", {"task_type": "echo"})
    assert (answer.status_code, answer.json()["code"]) == (429, "queue_full")
    assert int(answer["Retry-After"]) >= 1
    assert "4 tasks wait in the queue echo" in answer.json()["detail"]
    assert not Task.objects.exists()
    assert api.post("/tasks", {"task_type": "echo", "priority": "high"}).status_code == 201
    assert api.post("/tasks", {"task_type": "sleep"}).status_code == 201
    listed = Api(token_for("submit", rate_preset="listed"))
    assert listed.post("/tasks", {"task_type": "echo"}).status_code == 201


def test_tasks_in_postgres_count_and_do_so_while_redis_is_away(
    api: Api, broker: Broker, settings: Any, redis_url: str
) -> None:
    settings.DALSTON_WINDOW, settings.DALSTON_BACKPRESSURE_WAITING = 2, 3
    for _ in range(6):
        make.single()
    Dispatch(broker).poll()
    assert api.post("/tasks", {"task_type": "echo", "priority": "high"}).json()["queue_position"] == 1
    answer = api.post("/tasks", {"task_type": "echo"})
    assert "6 tasks wait in the queue echo" in answer.json()["detail"]
    settings.REDIS_URL = redis_url.replace(str(urlsplit(redis_url).port), "1")
    depths.forget()
    answer = api.post("/tasks", {"task_type": "echo"})
    assert (answer.status_code, answer["Retry-After"]) == (429, "30")
    assert "4 tasks wait in the queue echo" in answer.json()["detail"], "those in the window are not known"
    settings.REDIS_URL = redis_url
    depths.forget()
    settings.DALSTON_BACKPRESSURE_WAITING = 10
    assert api.post("/tasks", {"task_type": "echo"}).json()["queue_position"] == 7


def test_a_submission_shows_its_queue_position(api: Api, broker: Broker) -> None:
    fill(broker, 4)
    positions = {
        priority: api.post("/tasks", {"task_type": "echo", "priority": priority}).json()["queue_position"]
        for priority in ("high", "medium", "low")
    }
    assert positions == {"high": 1, "medium": 5, "low": 5}
    assert api.post("/tasks", {"task_type": "sleep"}).json()["queue_position"] == 1
    later = {"task_type": "echo", "scheduled_at": f"{timezone.now() + timedelta(days=300)}"}
    assert api.post("/tasks", later).json()["queue_position"] is None, "it is in no queue yet"


def test_in_a_batch_only_the_jobs_for_the_full_queue_are_refused(api: Api, broker: Broker, settings: Any) -> None:
    settings.DALSTON_BACKPRESSURE_WAITING = 3
    fill(broker, 4)
    jobs = [{"name": name, "stages": [{"stage": name}]} for name in ("echo", "sleep")]
    batch = api.post("/jobs:batch", {"jobs": jobs}).json()
    assert [item["code"] for item in batch["items"]] == ["queue_full", None]


def test_a_limited_token_gets_retry_after(token_for: Callable[..., str], settings: Any) -> None:
    settings.DALSTON_RATE_LIMITED_PER_MINUTE = 3
    limited = Api(token_for("read", rate_preset="limited"))
    free = Api(token_for("read"))
    assert [limited.get("/tasks").status_code for _ in range(4)] == [200, 200, 200, 429]
    answer = limited.get("/tasks")
    assert answer.json()["code"] == "rate_limited"
    assert 1 <= int(answer["Retry-After"]) <= 60
    assert free.get("/tasks").status_code == 200


def test_the_window_slides(broker: Broker) -> None:
    limits = [Limit(2, 1), Limit(100, 3600)]
    assert [broker.take_rate("t", limits) > 0 for _ in range(3)] == [False, False, True]
    assert 0 < broker.take_rate("t", limits) <= 1
    assert broker.take_rate("other", limits) == 0
    wait_until(lambda: broker.take_rate("t", limits) == 0, what="the window to move on")


def test_without_redis_everything_is_accepted(
    settings: Any, redis_url: str, token_for: Callable[..., str], broker: Broker
) -> None:
    settings.REDIS_URL = redis_url.replace(str(urlsplit(redis_url).port), "1")
    settings.DALSTON_RATE_LIMITED_PER_MINUTE = 1
    limited = Api(token_for("submit", "read", rate_preset="limited"))
    assert [limited.post("/tasks", {"task_type": "echo"}).status_code for _ in range(3)] == [201] * 3
    assert limited.post("/tasks", {"task_type": "echo"}).json()["queue_position"] is None
    answer = limited.get("/queue/stats")
    assert (answer.status_code, answer.json()["code"]) == (503, "redis_unavailable")
    assert answer["Retry-After"] == "5"

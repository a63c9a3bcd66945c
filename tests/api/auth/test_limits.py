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
from dalston_queue.broker.protocol.types import Priority
from dalston_queue.models import Project, Task
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


def test_a_full_queue_refuses_all_but_high(api: Api, settings: Any, token_for: Callable[..., str]) -> None:
    settings.DALSTON_BACKPRESSURE_WAITING = 3
    assert [api.post("/tasks", {"task_type": "echo"}).status_code for _ in range(4)] == [201] * 3 + [429]
    depths.forget()
    answer = api.post("/tasks", {"task_type": "echo"})
    assert (answer.status_code, answer.json()["code"]) == (429, "queue_full")
    assert int(answer["Retry-After"]) >= 1
    assert "3 tasks of this project wait in the queue echo" in answer.json()["detail"]
    assert Task.objects.count() == 3
    assert api.post("/tasks", {"task_type": "echo", "priority": "high"}).status_code == 201
    assert api.post("/tasks", {"task_type": "sleep"}).status_code == 201
    listed = Api(token_for("submit", rate_preset="listed"))
    assert listed.post("/tasks", {"task_type": "echo"}).status_code == 201
    other = Api(token_for("submit", project=Project.objects.create(name="other")))
    assert other.post("/tasks", {"task_type": "echo"}).status_code == 201, "another project's tasks refuse no request"


def test_the_request_itself_counts_and_so_does_what_waits_for_other_stages_or_its_time(api: Api, settings: Any) -> None:
    settings.DALSTON_BACKPRESSURE_WAITING = 3
    stages = [{"stage": f"s{n}", "queue": "echo", "after": [f"s{n - 1}"] if n else []} for n in range(4)]
    assert api.post("/jobs", {"name": "four", "stages": stages}).status_code == 429
    assert api.post("/jobs", {"name": "two", "stages": stages[:2]}).status_code == 201
    later = {"task_type": "echo", "scheduled_at": f"{timezone.now() + timedelta(days=300)}"}
    assert [api.post("/tasks", later).status_code for _ in range(2)] == [201, 429]
    depths.forget()
    assert api.post("/tasks", {"task_type": "echo"}).status_code == 429


def test_all_queues_of_a_project_have_a_limit_together(api: Api, settings: Any) -> None:
    settings.DALSTON_BACKPRESSURE_PROJECT = 2
    assert [api.post("/tasks", {"task_type": f"q{n}"}).status_code for n in range(3)] == [201, 201, 429]


def test_it_needs_no_redis(api: Api, broker: Broker, settings: Any, redis_url: str) -> None:
    settings.DALSTON_WINDOW, settings.DALSTON_BACKPRESSURE_WAITING = 2, 6
    for _ in range(6):
        make.single(of="alpha")
    Dispatch(broker).poll()
    assert api.post("/tasks", {"task_type": "echo", "priority": "high"}).json()["queue_position"] == 1
    settings.REDIS_URL = redis_url.replace(str(urlsplit(redis_url).port), "1")
    depths.forget()
    answer = api.post("/tasks", {"task_type": "echo"})
    assert (answer.status_code, answer["Retry-After"]) == (429, "30")
    assert "7 tasks of this project wait in the queue echo" in answer.json()["detail"]
    settings.REDIS_URL = redis_url
    depths.forget()
    settings.DALSTON_BACKPRESSURE_WAITING = 10
    assert api.post("/tasks", {"task_type": "echo"}).json()["queue_position"] == 7


def test_a_submission_shows_its_queue_position(api: Api, broker: Broker) -> None:
    for _ in range(4):
        make.single()
    Dispatch(broker).poll()
    positions = {
        priority: api.post("/tasks", {"task_type": "echo", "priority": priority}).json()["queue_position"]
        for priority in ("high", "medium", "low")
    }
    assert positions == {"high": 1, "medium": 5, "low": 5}
    assert api.post("/tasks", {"task_type": "sleep"}).json()["queue_position"] == 1
    later = {"task_type": "echo", "scheduled_at": f"{timezone.now() + timedelta(days=300)}"}
    assert api.post("/tasks", later).json()["queue_position"] is None, "it is in no queue yet"


def test_in_a_batch_only_the_jobs_for_the_full_queue_are_refused(api: Api, settings: Any) -> None:
    settings.DALSTON_BACKPRESSURE_WAITING = 2
    jobs = [{"name": name, "stages": [{"stage": name}]} for name in ("echo", "echo", "echo", "sleep")]
    batch = api.post("/jobs:batch", {"jobs": jobs}).json()
    assert [item["code"] for item in batch["items"]] == [None, None, "queue_full", None]


def test_a_batch_has_so_many_stages(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dalston_queue.api.schemas.jobs.MAX_BATCH_STAGES", 3)
    two = [{"stage": "a"}, {"stage": "b"}]
    jobs = [{"name": "job", "stages": stages} for stages in (two, two, two[:1])]
    batch = api.post("/jobs:batch", {"jobs": jobs}).json()
    assert [item["code"] for item in batch["items"]] == [None, "invalid", None]


def test_jobs_beyond_the_stages_of_a_batch_are_not_read(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dalston_queue.api.schemas.jobs.MAX_BATCH_STAGES", 3)
    two = [{"stage": "a"}, {"stage": "b"}]
    wrong: list[Any] = [{"name": "second", "stages": [{"stage": 7}] * 2}, {"name": 5}, 5, {"stages": 7}]
    jobs = [{"name": "first", "stages": two}, *wrong, {"name": "last", "stages": two[:1]}]
    items = api.post("/jobs:batch", {"jobs": jobs}).json()["items"]
    assert [item["code"] for item in items] == [None, *["invalid"] * 4, None]
    assert "at most 3 stages" in items[1]["detail"], "it was not checked"
    assert not any("at most" in item["detail"] for item in items[2:5])


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
    assert limited.post("/tasks", {"task_type": "echo"}).json()["queue_position"] == 1, "the order is that of Postgres"
    answer = limited.get("/queue/stats")
    assert (answer.status_code, answer.json()["code"]) == (503, "redis_unavailable")
    assert answer["Retry-After"] == "5"

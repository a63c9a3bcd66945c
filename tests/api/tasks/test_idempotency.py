"""Idempotency keys: the same key is the same task, also when sent many times at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from dalston_queue.models import Job, Project, Task
from tests.api.conftest import Api
from tests.web import Web

BODY = {"task_type": "echo", "parameters": {"a": 1}}


def test_a_repeat_answers_200_with_the_first_task(api: Api) -> None:
    first = api.post("/tasks", {**BODY, "idempotency_key": "k"})
    again = api.post("/tasks", BODY, **{"Idempotency-Key": "k"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["task_id"] == again.json()["task_id"]
    assert Task.objects.count() == 1


def test_another_body_under_the_same_key_is_409(api: Api) -> None:
    api.post("/tasks", {**BODY, "idempotency_key": "k"})
    answer = api.post("/tasks", {"task_type": "echo", "parameters": {"a": 2}, "idempotency_key": "k"})
    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_conflict")
    assert Task.objects.count() == 1


def test_two_projects_may_use_the_same_key(api: Api, token_for: Callable[..., str]) -> None:
    other = Api(token_for("submit", project=Project.objects.create(name="beta")))
    ids = {each.post("/tasks", {**BODY, "idempotency_key": "k"}).json()["task_id"] for each in (api, other)}
    assert len(ids) == 2


def test_two_different_keys_in_one_request_are_refused(api: Api) -> None:
    answer = api.post("/tasks", {**BODY, "idempotency_key": "k"}, **{"Idempotency-Key": "other"})
    assert answer.status_code == 422


@pytest.mark.django_db(transaction=True)
def test_fifty_posts_at_once_make_one_task(web: Web, token_for: Callable[..., str]) -> None:
    token = token_for("submit", "read")
    with web.client(token) as client, ThreadPoolExecutor(50) as pool:

        def post(_: int) -> httpx.Response:
            return client.post("/api/v1/tasks", json=BODY, headers={"Idempotency-Key": "once"})

        answers = list(pool.map(post, range(50)))
    assert sorted(answer.status_code for answer in answers) == [200] * 49 + [201]
    assert len({answer.json()["task_id"] for answer in answers}) == 1
    assert Job.objects.count() == Task.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_batches_with_the_same_keys_in_any_order_do_not_block_each_other(
    web: Web, token_for: Callable[..., str]
) -> None:
    jobs = [{"name": "a", "stages": [{"stage": "echo"}], "idempotency_key": f"key-{number}"} for number in range(150)]
    with web.client(token_for("submit")) as client, ThreadPoolExecutor(6) as pool:
        batches = [random.Random(seed).sample(jobs, len(jobs)) for seed in range(6)]
        answers = list(pool.map(lambda batch: client.post("/api/v1/jobs:batch", json={"jobs": batch}), batches))
    assert [answer.status_code for answer in answers] == [200] * 6
    assert sum(item["created"] for answer in answers for item in answer.json()["items"]) == len(jobs)
    assert Job.objects.count() == len(jobs)

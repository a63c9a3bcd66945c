"""POST /tasks: defaults, validation, limits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from dalston_queue.api.auth.backpressure import depths
from dalston_queue.models import Job, Project, Sample, Task
from tests.api.conftest import Api


def test_a_task_becomes_a_job_of_one_in_the_tokens_project(api: Api, project: Project) -> None:
    answer = api.post("/tasks", {"task_type": "echo", "priority": "high", "parameters": {"hello": "world"}})

    assert answer.status_code == 201, answer.content
    body = answer.json()
    assert answer["Location"] == f"/api/v1/tasks/{body['task_id']}"
    assert (body["status"], body["queue"], body["priority"]) == ("pending", "echo", "high")
    assert (body["timeout_seconds"], body["max_retries"]) == (300, 5)
    job = Job.objects.get(pk=body["job_id"])
    assert (job.project, job.token.name if job.token else None) == (project, "test")
    assert Task.objects.get(job=job).parameters == {"hello": "world"}


def test_it_says_how_long_the_wait_may_be(api: Api) -> None:
    assert api.post("/tasks", {"task_type": "echo"}).json()["estimated_wait_seconds"] is None
    for minute in (1, 2):
        at = timezone.now() - timedelta(minutes=minute)
        Sample.objects.create(kind="queue", name="echo", at=at, numbers={"waiting": 9, "completed": 5, "failed": 1})
    depths.forget()
    shown = api.post("/tasks", {"task_type": "echo"}).json()
    assert shown["estimated_wait_seconds"] == pytest.approx(shown["queue_position"] / 0.1)


def test_the_client_overrides_the_defaults(api: Api) -> None:
    at = (timezone.now() + timedelta(hours=1)).isoformat()
    body = api.post(
        "/tasks",
        {
            "task_type": "diarize_fast",
            "stage": "diarize",
            "required_capabilities": ["gpu", "cuda12"],
            "timeout_seconds": 30,
            "max_retries": 0,
            "scheduled_at": at,
        },
    ).json()
    assert (body["task_type"], body["queue"]) == ("diarize_fast", "diarize")
    assert (body["timeout_seconds"], body["max_retries"]) == (30, 0)
    assert body["required_capabilities"] == ["cuda12", "gpu"]
    assert datetime.fromisoformat(body["scheduled_at"]) == datetime.fromisoformat(at)


def test_stage_alone_is_enough(api: Api) -> None:
    body = api.post("/tasks", {"stage": "echo"}).json()
    assert (body["task_type"], body["queue"]) == ("echo", "echo")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "task_type or stage"),
        ({"task_type": "echo", "priority": "urgent"}, "priority"),
        ({"task_type": "echo", "timeout_seconds": 0}, "timeout_seconds"),
        ({"task_type": "echo", "max_retries": 101}, "max_retries"),
        ({"task_type": "echo", "parameters": [1]}, "parameters"),
        ({"task_type": "echo", "scheduled_at": "2030-01-01T00:00:00"}, "scheduled_at"),
        ({"task_type": "echo", "scheduled_at": "9999-12-31T23:59:59-12:00"}, "ten years"),
        ({"task_type": "Echo!"}, "task_type"),
        ({"task_type": "echo", "required_capabilities": ["a b"]}, "required_capabilities"),
        ({"task_type": "echo", "prioritty": "high"}, "prioritty"),
        ({"task_type": "echo", "idempotency_key": ""}, "idempotency_key"),
        ({"task_type": "echo", "concurrency_key": ""}, "concurrency_key: "),
        ({"task_type": "echo", "concurrency_key": "*"}, "1 to 80 printable ASCII characters"),
        ({"task_type": "echo", "concurrency_key": "a "}, "no space at an end"),
        ({"task_type": "echo", "concurrency_key": "ü"}, "printable ASCII"),
        ({"task_type": "echo", "concurrency_key": "a" * 81}, "1 to 80"),
        ([], "body"),
    ],
)
def test_a_wrong_body_is_refused_with_the_fields_name(api: Api, body: Any, message: str) -> None:
    answer = api.post("/tasks", body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert message in answer.json()["detail"]
    assert not Job.objects.exists()


@pytest.mark.parametrize("key", ["4", "customer 42", "*a", "~", "a" * 80])
def test_a_task_keeps_its_concurrency_key(api: Api, key: str) -> None:
    body = api.post("/tasks", {"task_type": "echo", "concurrency_key": key}).json()
    assert body["concurrency_key"] == key
    assert api.get(f"/tasks/{body['task_id']}").json()["concurrency_key"] == key
    assert api.post("/tasks", {"task_type": "echo"}).json()["concurrency_key"] is None


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"not json",
        b'{"task_type": NaN}',
        b'{"task_type": "echo", "parameters": {"a": "\\u0000"}}',
        b'{"task_type": "echo", "parameters": {"\\u0000": 1}}',
        b'{"task_type": "echo", "parameters": {"a": "\\ud800"}}',
        b'{"task_type": "echo", "parameters": {"a": 99999999999999999999}}',
        b'{"task_type": "echo", "parameters": {"a": 1e999}}',
        b'{"task_type": "\xff"}',
        b'{"task_type": "echo", "parameters": {"a": ' + b"[" * 65 + b"]" * 65 + b"}}",
        b"[" * 100_000,
    ],
    ids=lambda raw: str(raw[:60]),
)
def test_json_that_cannot_be_stored_is_refused(api: Api, raw: bytes) -> None:
    answer = api.call("POST", "/tasks", raw=raw)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed_body")


@pytest.mark.parametrize("size", [300_000, 5_000_000])
def test_a_large_payload_is_refused_with_advice(api: Api, size: int) -> None:
    answer = api.post("/tasks", {"task_type": "echo", "parameters": {"text": "x" * size}})
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
    assert "send its address" in answer.json()["detail"]


def test_parameters_just_above_the_limit_are_refused_even_if_the_body_is_not(api: Api) -> None:
    answer = api.post("/tasks", {"task_type": "echo", "parameters": {"text": "x" * 262_140}})
    assert answer.status_code == 413
    answer = api.post("/tasks", {"task_type": "echo", "parameters": {"text": "x" * 262_000}})
    assert answer.status_code == 201


def test_the_task_has_the_trace_id_of_the_caller(api: Api) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    answer = api.post("/tasks", {"task_type": "echo"}, traceparent=f"00-{trace}-00f067aa0ba902b7-01")
    assert answer.json()["trace_id"] == answer["X-Trace-Id"] == trace


def test_a_token_without_submit_makes_nothing(token_for: Callable[..., str], api: Api) -> None:
    assert Api(token_for("read")).post("/tasks", {"task_type": "echo"}).status_code == 403
    assert not Job.objects.exists()


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+23:00", "0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z"])
def test_a_time_long_ago_is_now(api: Api, at: str) -> None:
    answer = api.post("/tasks", {"task_type": "echo", "scheduled_at": at})
    assert answer.status_code == 201, answer.content
    assert api.get(f"/tasks/{answer.json()['task_id']}").json()["status"] == "pending"

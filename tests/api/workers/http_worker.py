"""A worker in plain HTTP, as an author in another language writes it."""

from __future__ import annotations

from typing import Any

import httpx

Json = dict[str, Any]


class Worker:
    """The calls of the worker protocol."""

    def __init__(self, http: httpx.Client, *stages: str, **fields: Any) -> None:
        self.http = http
        answer = http.post("/api/v1/internal/workers/register", json={"stages": list(stages), "capacity": 1, **fields})
        assert answer.status_code == 201, answer.text
        self.facts: Json = answer.json()
        self.path = f"/api/v1/internal/workers/{self.facts['worker_id']}"

    def call(self, verb: str, body: Json, **query: Any) -> httpx.Response:
        return self.http.post(f"{self.path}/{verb}", json=body, params=query)

    def poll(self, wait: float = 20, held: list[Json] | None = None, **fields: Any) -> list[Json]:
        body = {"held": [hold(task) for task in held or []], **fields}
        answer = self.call("poll", body, wait=wait)
        assert answer.status_code == 200, answer.text
        tasks: list[Json] = answer.json()["tasks"]
        return tasks

    def take(self) -> Json:
        [task] = self.poll()
        return task

    def heartbeat(self, *held: Json) -> httpx.Response:
        return self.call("heartbeat", {"held": [hold(task) for task in held]})

    def result(self, task: Json, status: str = "completed", **fields: Any) -> httpx.Response:
        return self.call("result", {**hold(task), "status": status, **fields})


def hold(task: Json) -> Json:
    return {"task_id": task["task_id"], "attempt": task["attempt"]}


def refused(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]

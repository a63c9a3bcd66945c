"""Client: one method per route of the API, those of transcriptions inherited; docs/api.md explains them.

Repeatable calls are retried for up to `retry_timeout` seconds when the server does not answer or is busy. A submission
is always repeatable: it has an idempotency key, the caller's or one made here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, cast
from uuid import uuid4

from dalston_client import answers, config
from dalston_client.transcriptions import TranscriptionCalls
from dalston_client.transport import MAX_PAGE, OnRetry, Transport, pages, route
from dalston_client.waiting import wait_until_over
from dalston_client.watch import Event, watch

RETRY_TIMEOUT_S = 30.0
MAX_BATCH = 1_000


class Client(TranscriptionCalls):
    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retry_timeout: float = RETRY_TIMEOUT_S,
        on_retry: OnRetry | None = None,
    ) -> None:
        """Without arguments: DALSTON_URL and DALSTON_TOKEN. `on_retry` is called before each retry."""
        url, token = config.resolve(url, token)
        self._transport = Transport(url, token, retry_timeout=retry_timeout, on_retry=on_retry)

    def __repr__(self) -> str:
        return f"Client({self._transport.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    # tasks

    def submit_task(
        self,
        task_type: str | None = None,
        *,
        stage: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        priority: answers.Priority = "medium",
        required_capabilities: Iterable[str] = (),
        timeout_seconds: int | None = None,
        max_retries: int | None = None,
        scheduled_at: str | None = None,
        concurrency_key: str | None = None,
        callback_url: str | None = None,
        idempotency_key: str | None = None,
        wait: float = 0.0,
    ) -> answers.Task:
        body = {
            "task_type": task_type,
            "stage": stage,
            "parameters": dict(parameters or {}),
            "priority": priority,
            "required_capabilities": list(required_capabilities),
            "timeout_seconds": timeout_seconds,
            "max_retries": max_retries,
            "scheduled_at": scheduled_at,
            "concurrency_key": concurrency_key,
            "callback_url": callback_url,
        }
        return cast(answers.Task, self._submit("/tasks", body, idempotency_key, wait))

    def task(self, task_id: str, *, history: bool = False, wait: float = 0.0) -> answers.Task:
        params = {"include_history": "true"} if history else None
        return cast(answers.Task, self._transport.call("GET", route("tasks", task_id), params=params, wait=wait))

    def tasks(self, *, limit: int = 50, **filters: Any) -> Iterator[answers.Task]:
        """Newest first, up to `limit`; by status, stage, task_type, error, payload, created_after, created_before."""
        return self._pages("/tasks", limit, filters)

    def why(self, task_id: str) -> answers.Why:
        return cast(answers.Why, self._transport.call("GET", route("tasks", task_id, "why")))

    def cancel_task(self, task_id: str, *, reason: str = "") -> answers.CancelledTask:
        return cast(answers.CancelledTask, self._delete(route("tasks", task_id), reason))

    # jobs

    def submit_job(
        self,
        name: str | None = None,
        *,
        pipeline: str | None = None,
        stages: Iterable[Mapping[str, Any]] = (),
        parameters: Mapping[str, Any] | None = None,
        priority: answers.Priority = "medium",
        concurrency_key: str | None = None,
        callback_url: str | None = None,
        idempotency_key: str | None = None,
        wait: float = 0.0,
    ) -> answers.Job:
        body = {
            "name": name,
            "pipeline": pipeline,
            "stages": [dict(stage) for stage in stages],
            "parameters": dict(parameters or {}),
            "priority": priority,
            "concurrency_key": concurrency_key,
            "callback_url": callback_url,
        }
        return cast(answers.Job, self._submit("/jobs", body, idempotency_key, wait))

    def submit_batch(self, jobs: Iterable[Mapping[str, Any]]) -> answers.Batch:
        """Any number of jobs, as submit_job takes them; sent a thousand at a time, answered in their order."""
        whole: answers.Batch = {"accepted": 0, "refused": 0, "items": []}
        remaining = iter(jobs)
        while chunk := [{"idempotency_key": uuid4().hex, **job} for job in itertools.islice(remaining, MAX_BATCH)]:
            part = cast(answers.Batch, self._transport.call("POST", "/jobs:batch", body={"jobs": chunk}))
            whole["accepted"] += part["accepted"]
            whole["refused"] += part["refused"]
            whole["items"] += part["items"]
        return whole

    def job(self, job_id: str, *, wait: float = 0.0) -> answers.Job:
        return cast(answers.Job, self._transport.call("GET", route("jobs", job_id), wait=wait))

    def jobs(self, *, limit: int = 50, **filters: Any) -> Iterator[answers.Job]:
        """Newest first; by status, name, task_type, error, payload, token, created_after, created_before."""
        return self._pages("/jobs", limit, filters)

    def cancel_job(self, job_id: str, *, reason: str = "") -> answers.CancelledJob:
        return cast(answers.CancelledJob, self._delete(route("jobs", job_id), reason))

    def wait(self, job_id: str, *, timeout: float | None = None) -> answers.Job:
        """The job when it is over, or as it is after `timeout` seconds."""
        return wait_until_over(lambda wait: self.job(job_id, wait=wait), timeout)

    def watch(self, job_id: str, *, after: int | None = None, timeout: float | None = None) -> Iterator[Event]:
        """Events of a job until its `end`, or for `timeout` seconds. `after`: the id of the last known event."""
        return watch(self._transport, job_id, after, timeout)

    # dead letters

    def dead_letters(self, *, limit: int = 50, **filters: Any) -> Iterator[answers.DeadLetter]:
        """Open ones, newest first; by queue, cause, fingerprint, task_type, error, created_after, created_before."""
        return self._pages("/dead_letters", limit, filters)

    def dead_letter(self, dead_letter_id: str) -> answers.DeadLetter:
        return cast(answers.DeadLetter, self._transport.call("GET", route("dead_letters", dead_letter_id)))

    def dead_letter_groups(self, *, limit: int = 50, **filters: Any) -> list[answers.Group]:
        params = {**filters, "limit": limit}
        return cast(list[answers.Group], self._transport.call("GET", "/dead_letters/groups", params=params))

    def replay(
        self,
        dead_letter_id: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        priority: answers.Priority | None = None,
        reason: str = "",
    ) -> answers.Replayed:
        body = _fields(parameters=parameters, priority=priority, reason=reason)
        return cast(
            answers.Replayed, self._transport.call("POST", route("dead_letters", dead_letter_id, "replay"), body=body)
        )

    def replay_many(
        self,
        ids: Iterable[str] | None = None,
        *,
        filters: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        limit: int | None = None,
        parameters: Mapping[str, Any] | None = None,
        priority: answers.Priority | None = None,
        reason: str = "",
    ) -> answers.ReplayedMany:
        """Replay at once, by ids or by filters. `dry_run` only counts. For many, or at a rate: replay_in_batch."""
        body = _selection(ids, filters) | _fields(
            dry_run=dry_run, limit=limit, parameters=parameters, priority=priority, reason=reason
        )
        # The same ids twice are replayed once; "the next thousand that match" are other dead letters the second time.
        repeatable = dry_run or ids is not None
        return cast(
            answers.ReplayedMany, self._transport.call("POST", "/dead_letters:replay", body=body, repeatable=repeatable)
        )

    def replay_in_batch(
        self,
        ids: Iterable[str] | None = None,
        *,
        filters: Mapping[str, Any] | None = None,
        rate_per_minute: int | None = None,
        undo_seconds: float = 10.0,
        limit: int | None = None,
        parameters: Mapping[str, Any] | None = None,
        priority: answers.Priority | None = None,
        reason: str = "",
    ) -> answers.ReplayBatch:
        """The server replays them at this rate, not before `undo_seconds`: until then the batch can be undone."""
        body = _selection(ids, filters) | _fields(
            rate_per_minute=rate_per_minute,
            undo_seconds=undo_seconds,
            limit=limit,
            parameters=parameters,
            priority=priority,
            reason=reason,
        )
        return cast(
            answers.ReplayBatch, self._transport.call("POST", "/dead_letters:replay", body=body, repeatable=False)
        )

    def replay_batch(self, replay_batch_id: str) -> answers.ReplayBatch:
        return cast(answers.ReplayBatch, self._transport.call("GET", route("replay_batches", replay_batch_id)))

    def replay_batches(self, *, limit: int = 50, **filters: Any) -> Iterator[answers.ReplayBatch]:
        """Newest first; by state."""
        return self._pages("/replay_batches", limit, filters)

    def undo_replay_batch(self, replay_batch_id: str, *, reason: str = "") -> answers.Withdrawn:
        """Undo a batch that waits, or stop the rest of one that runs; the answer says which."""
        return cast(answers.Withdrawn, self._delete(route("replay_batches", replay_batch_id), reason))

    def discard(self, dead_letter_id: str, *, reason: str = "") -> answers.Discarded:
        return cast(answers.Discarded, self._delete(route("dead_letters", dead_letter_id), reason))

    # nodes and queues

    def nodes(self) -> list[answers.Node]:
        return cast(list[answers.Node], self._transport.call("GET", "/nodes"))

    def command(
        self,
        node_id: str,
        command: answers.NodeCommand,
        *,
        engine: str | None = None,
        replicas: int | None = None,
        gpu: str | None = None,
        reason: str = "",
        wait: float = 0.0,
    ) -> answers.Command:
        """Send a node a command; with `wait` (up to 20 s) the answer has its result."""
        body = _fields(engine=engine, replicas=replicas, gpu=gpu, reason=reason)
        body |= {"command": command, "command_id": uuid4().hex}
        return cast(
            answers.Command, self._transport.call("POST", route("nodes", node_id, "commands"), body=body, wait=wait)
        )

    def forget_node(self, node_id: str, *, reason: str = "") -> answers.Forgotten:
        """Take a dead node off the list. Its next heartbeat registers it again."""
        return cast(answers.Forgotten, self._delete(route("nodes", node_id), reason))

    def drain_worker(self, worker_id: str, *, reason: str = "") -> answers.WorkerDrain:
        """Deliver no more tasks to a worker over HTTP, which then leaves. Nodes are drained by `command`."""
        body = {"reason": reason}
        return cast(answers.WorkerDrain, self._transport.call("POST", route("workers", worker_id, "drain"), body=body))

    def resume_worker(self, worker_id: str, *, reason: str = "") -> answers.WorkerDrain:
        body = {"reason": reason}
        return cast(answers.WorkerDrain, self._transport.call("POST", route("workers", worker_id, "resume"), body=body))

    def logs(
        self, node_id: str, engine: str, *, lines: int = 200, since: str | None = None, until: str | None = None
    ) -> answers.Logs:
        params = {"lines": lines, "since": since, "until": until}
        path = route("nodes", node_id, "engines", engine, "logs")
        return cast(answers.Logs, self._transport.call("GET", path, params=params))

    def stats(self) -> answers.Stats:
        return cast(answers.Stats, self._transport.call("GET", "/queue/stats"))

    def streams(self) -> list[answers.Stream]:
        found: list[answers.Stream] = []
        while True:
            params = {"after": found[-1]["queue"]} if found else None
            page = cast(list[answers.Stream], self._transport.call("GET", "/streams", params=params))
            found += page
            if len(page) < MAX_PAGE:
                return found

    def pause(self, stage: str, *, reason: str = "", new: bool = False) -> answers.Paused:
        """`new`: also a queue that is not used yet. Otherwise that is a 404: its name is probably misspelt."""
        path, body = route("streams", stage, "pause"), {"reason": reason, "new": new}
        return cast(answers.Paused, self._transport.call("POST", path, body=body))

    def resume(self, stage: str, *, reason: str = "") -> answers.Paused:
        path, body = route("streams", stage, "resume"), {"reason": reason}
        return cast(answers.Paused, self._transport.call("POST", path, body=body))

    # limits

    def limits(self, *, limit: int = 50, **filters: Any) -> Iterator[answers.Limit]:
        """Oldest first, up to `limit`; by queue, project."""
        return self._pages("/limits", limit, filters)

    def set_limit(
        self,
        *,
        queue: str | None = None,
        project: str | None = None,
        concurrency_key: str | None = None,
        max_in_flight: int | None = None,
        starts_per_minute: int | None = None,
        reason: str = "",
    ) -> answers.LimitSet:
        """Make or change the limit of a scope; a number left out is no limit. The key `*`: each key for itself."""
        body = _fields(
            queue=queue,
            project=project,
            concurrency_key=concurrency_key,
            max_in_flight=max_in_flight,
            starts_per_minute=starts_per_minute,
            reason=reason,
        )
        return cast(answers.LimitSet, self._transport.call("PUT", "/limits", body=body))

    def remove_limit(self, limit_id: int, *, reason: str = "") -> answers.LimitRemoved:
        return cast(answers.LimitRemoved, self._delete(route("limits", str(limit_id)), reason))

    def weight(self, project: str) -> answers.Weight:
        return cast(answers.Weight, self._transport.call("GET", route("projects", project, "weight")))

    def set_weight(self, project: str, weight: int, *, reason: str = "") -> answers.WeightSet:
        """3 gets three times as many slots as 1 while both projects wait."""
        path, body = route("projects", project, "weight"), _fields(weight=weight, reason=reason)
        return cast(answers.WeightSet, self._transport.call("PUT", path, body=body))

    def _submit(self, path: str, body: dict[str, Any], key: str | None, wait: float) -> Any:
        fields = {name: value for name, value in body.items() if value is not None and value != []}
        headers = {"Idempotency-Key": key or uuid4().hex}
        return self._transport.call("POST", path, body=fields, headers=headers, wait=wait)

    def _delete(self, path: str, reason: str) -> Any:
        return self._transport.call("DELETE", path, params={"reason": reason or None})

    def _pages(self, path: str, limit: int, filters: Mapping[str, Any]) -> Iterator[Any]:
        return pages(self._transport, path, limit, filters)


def _fields(**fields: Any) -> dict[str, Any]:
    """Without empty values, which are left to the server."""
    return {name: value for name, value in fields.items() if value is not None and value != "" and value is not False}


def _selection(ids: Iterable[str] | None, filters: Mapping[str, Any] | None) -> dict[str, Any]:
    if (ids is None) == (filters is None):
        raise ValueError("either ids or filters is needed, and not both")
    return {"filter": _fields(**filters)} if filters is not None else {"ids": list(ids or ())}

"""Watches a job until it is over and reconnects broken streams: no event is missed and none comes twice.

Without a stream (the server has no free one, or a proxy buffers it) it polls the job instead; then there are `progress`
and `end` events, and no `task` events.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from dalston_client.errors import ApiError, DalstonError, NotFound, Unavailable, Unreachable
from dalston_client.retry import may_retry
from dalston_client.sse import messages
from dalston_client.transport import Transport, route

READ_TIMEOUT_S = 25.0
"""The server sends a comment every 10 s. After this the connection is dead, or a proxy buffers."""
MAX_TIMEOUTS = 2
"""Streams without a byte before it polls instead."""
POLL_WAIT_S, MIN_POLL_INTERVAL_S = 20.0, 1.0
OVER = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Event:
    """`name`: task (a transition of a task, with its id), progress, or end; `data`: see docs/api.md."""

    name: str
    data: dict[str, Any]
    id: int | None = None


class _NoStream(Exception):
    """Poll instead."""


class _Deadline:
    """How many seconds are left of the timeout."""

    def __init__(self, timeout: float | None) -> None:
        self._end = math.inf if timeout is None else time.monotonic() + timeout

    @property
    def left(self) -> float:
        return self._end - time.monotonic()


def watch(transport: Transport, job_id: str, after: int | None, timeout: float | None) -> Iterator[Event]:
    deadline = _Deadline(timeout)
    try:
        with closing(_streamed(transport, job_id, after, deadline)) as events:
            for event in events:
                yield event
                if event.name == "end":
                    return
    except _NoStream:
        yield from _polled(transport, job_id, deadline)


def _streamed(transport: Transport, job_id: str, after: int | None, deadline: _Deadline) -> Generator[Event]:
    broken_since, tries, timeouts = time.monotonic(), 0, 0
    while deadline.left > 0:
        received = False
        problem: DalstonError = Unreachable(f"{transport.url} closed the stream.")
        try:
            for event in _one_stream(transport, job_id, after, min(READ_TIMEOUT_S, deadline.left)):
                received = True
                broken_since, tries, timeouts = time.monotonic(), 0, 0
                if event is not None:
                    after = after if event.id is None else event.id
                    yield event
                if deadline.left <= 0:
                    return
        except Unreachable as error:
            if deadline.left <= 0:
                return
            problem = error
            timeouts += error.timed_out and not received
        except ApiError as error:
            problem = _retryable(error)
        if timeouts >= MAX_TIMEOUTS:
            raise _NoStream
        transport.back_off(problem, tries, time.monotonic() - broken_since)
        tries += 1


def _one_stream(transport: Transport, job_id: str, after: int | None, read_timeout: float) -> Iterator[Event | None]:
    headers = {"Accept": "text/event-stream"} | ({} if after is None else {"Last-Event-ID": str(after)})
    with transport.stream(route("jobs", job_id, "events"), headers, read_timeout=read_timeout) as body:
        for message in messages(body()):
            if message is None:
                yield None
            elif message.event == "closed":
                raise _closed(message.data)
            else:
                yield Event(message.event, message.data, message.id)


def _retryable(error: ApiError) -> ApiError:
    """The problem, if another try can help. Otherwise it is raised."""
    if error.code == "streams_full":
        raise _NoStream from error
    if not may_retry(error, repeatable=True, nothing_sent=False):
        raise error
    return error


def _closed(data: dict[str, Any]) -> ApiError:
    """Why the server ends the stream. The next call gets the full error of a revoked token."""
    code, detail = str(data.get("code")), str(data.get("detail"))
    return NotFound(404, code, detail) if code == "not_found" else Unavailable(503, code, detail)


def _polled(transport: Transport, job_id: str, deadline: _Deadline) -> Iterator[Event]:
    last: dict[str, Any] | None = None
    while deadline.left > 0:
        started = time.monotonic()
        job = transport.call("GET", route("jobs", job_id), wait=min(POLL_WAIT_S, deadline.left) if last else 0.0)
        now = {"status": job["status"], "progress": job["progress"], "tasks": [_running(it) for it in job["tasks"]]}
        now["tasks"] = [task for task in now["tasks"] if task]
        if now != last:
            last = now
            yield Event("progress", now)
        if job["status"] in OVER:
            names = ("job_id", "status", "progress", "error", "completed_at")
            yield Event("end", {name: job[name] for name in names})
            return
        # a busy server ignores `wait`
        time.sleep(max(0.0, min(started + MIN_POLL_INTERVAL_S - time.monotonic(), deadline.left)))


def _running(task: dict[str, Any]) -> dict[str, Any] | None:
    if task["status"] != "running":
        return None
    same = {name: task[name] for name in ("task_id", "stage", "attempt", "progress", "progress_known")}
    return {**same, "message": task["progress_message"]}

"""Follows a job until it is over, over broken connections: nothing is missed and nothing comes twice.

Where a stream is not to be had (the server serves as many as it may, or a proxy holds it back), it asks again and again
instead; then there are `progress` and `end`, and no single moves.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from dalston_client.errors import ApiError, DalstonError, NotFound, Unavailable, Unreachable
from dalston_client.patience import may_pass
from dalston_client.sse import messages
from dalston_client.transport import Transport, route

SILENCE_S = 25.0
"""The server says something every 10 s. Longer silence means that the connection is gone, or that a proxy collects."""
SILENT_TRIES = 2
POLL_S, LEAST_S = 20.0, 1.0
OVER = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Event:
    """`name`: task (a move of a task, with its id), progress, or end; `data`: as docs/api.md has it."""

    name: str
    data: dict[str, Any]
    id: int | None = None


class _NoStream(Exception):
    """Ask instead."""


class _Clock:
    """How much of the follower's time is left."""

    def __init__(self, timeout: float | None) -> None:
        self._end = math.inf if timeout is None else time.monotonic() + timeout

    @property
    def left(self) -> float:
        return self._end - time.monotonic()


def watch(transport: Transport, job_id: str, after: int | None, timeout: float | None) -> Iterator[Event]:
    clock = _Clock(timeout)
    try:
        with closing(_streamed(transport, job_id, after, clock)) as events:
            for event in events:
                yield event
                if event.name == "end":
                    return
    except _NoStream:
        yield from _asked(transport, job_id, clock)


def _streamed(transport: Transport, job_id: str, after: int | None, clock: _Clock) -> Generator[Event]:
    broken_since, tries, silent = time.monotonic(), 0, 0
    while clock.left > 0:
        heard = False
        problem: DalstonError = Unreachable(f"{transport.url} broke the stream off.")
        try:
            for event in _one_stream(transport, job_id, after, min(SILENCE_S, clock.left)):
                heard = True
                broken_since, tries, silent = time.monotonic(), 0, 0
                if event is not None:
                    after = after if event.id is None else event.id
                    yield event
                if clock.left <= 0:
                    return
        except Unreachable as error:
            if clock.left <= 0:
                return
            problem = error
            silent += error.timed_out and not heard
        except ApiError as error:
            problem = _passing(error)
        if silent >= SILENT_TRIES:
            raise _NoStream
        transport.hold_on(problem, tries, time.monotonic() - broken_since)
        tries += 1


def _one_stream(transport: Transport, job_id: str, after: int | None, silence: float) -> Iterator[Event | None]:
    headers = {"Accept": "text/event-stream"} | ({} if after is None else {"Last-Event-ID": str(after)})
    with transport.stream(route("jobs", job_id, "events"), headers, silence=silence) as body:
        for message in messages(body()):
            if message is None:
                yield None
            elif message.event == "closed":
                raise _closed(message.data)
            else:
                yield Event(message.event, message.data, message.id)


def _passing(error: ApiError) -> ApiError:
    """The problem, if waiting can help. Otherwise it is raised."""
    if error.code == "streams_full":
        raise _NoStream from error
    if not may_pass(error, repeatable=True, nothing_sent=False):
        raise error
    return error


def _closed(data: dict[str, Any]) -> ApiError:
    """Why the server ends the stream. A revoked token is said in full by the answer to the next call."""
    code, detail = str(data.get("code")), str(data.get("detail"))
    return NotFound(404, code, detail) if code == "not_found" else Unavailable(503, code, detail)


def _asked(transport: Transport, job_id: str, clock: _Clock) -> Iterator[Event]:
    shown: dict[str, Any] | None = None
    while clock.left > 0:
        started = time.monotonic()
        job = transport.call("GET", route("jobs", job_id), wait=min(POLL_S, clock.left) if shown else 0.0)
        now = {"status": job["status"], "progress": job["progress"], "tasks": [_running(it) for it in job["tasks"]]}
        now["tasks"] = [task for task in now["tasks"] if task]
        if now != shown:
            shown = now
            yield Event("progress", now)
        if job["status"] in OVER:
            names = ("job_id", "status", "progress", "error", "completed_at")
            yield Event("end", {name: job[name] for name in names})
            return
        # `wait` is ignored by a server that is busy
        time.sleep(max(0.0, min(started + LEAST_S - time.monotonic(), clock.left)))


def _running(task: dict[str, Any]) -> dict[str, Any] | None:
    if task["status"] != "running":
        return None
    same = {name: task[name] for name in ("task_id", "stage", "attempt", "progress", "progress_known")}
    return {**same, "message": task["progress_message"]}

"""The event stream of one subscription: each task change once and in order, progress as it changes, the end.

event: task       id: the change's; sent as Last-Event-ID, the stream continues behind it
event: progress   the job and its running tasks, when one of these values changed
event: end        the job is over
event: closed     the server ends the stream: the token was revoked, or there are too many streams
: …               a comment every 10 s, so that both sides notice a dead connection
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from uuid import UUID

import msgspec

from dalston_queue.api.errors.problems import Code
from dalston_queue.api.subscriptions.changes import Cursor, JobChanges
from dalston_queue.api.subscriptions.job_events import Closed, Subscription, job_events
from dalston_queue.api.subscriptions.subscriber import Subscriber

HEARTBEAT_S = 10.0
RECONNECT_MS = 2_000

_CLOSED: dict[Closed, tuple[Code, str]] = {
    Closed.NOT_ALLOWED: (Code.UNAUTHENTICATED, "The token was revoked or changed, or the login is over."),
    Closed.JOB_GONE: (Code.NOT_FOUND, "The job does not exist any more."),
}
STREAMS_FULL = "This web process has no free event stream for this project. Try again, or read the job with ?wait=30."


async def event_stream(subscriber: Subscriber, cursor: Cursor) -> AsyncGenerator[str]:
    if not job_events.has_room(subscriber):  # the route asks as well; this holds when many clients connect at once
        yield _event("closed", {"code": Code.STREAMS_FULL, "detail": STREAMS_FULL})
        return
    with job_events.subscribe(subscriber, cursor) as subscription:
        yield f"retry: {RECONNECT_MS}\n\n"
        async with aclosing(_events(subscription)) as events:
            async for event in events:
                yield event


async def _events(subscription: Subscription) -> AsyncGenerator[str]:
    job_id = subscription.cursor.job_id
    sent: dict[str, Any] | None = None
    heard_at = time.monotonic()  # when the client got its last line
    while True:
        answer = asyncio.wrap_future(subscription.answer)
        # Polls answer twice a second, mostly with nothing to send.
        while time.monotonic() - heard_at >= HEARTBEAT_S or not await _is_there(answer, heard_at + HEARTBEAT_S):
            yield ": still here\n\n"
            heard_at = time.monotonic()
        changes = answer.result()
        if isinstance(changes, Closed):
            if changes in _CLOSED:
                code, detail = _CLOSED[changes]
                yield _event("closed", {"code": code, "detail": detail})
            return
        for change in changes.tasks:
            yield _event("task", change, change.event_id)
            subscription.cursor = Cursor(job_id, change.event_id)
            heard_at = time.monotonic()
        if (progress := _progress(changes)) != sent:
            sent = progress
            yield _event("progress", progress)
            heard_at = time.monotonic()
        if changes.is_last:
            yield _event("end", _end(job_id, changes))
            return
        subscription.ask()


async def _is_there(answer: asyncio.Future[JobChanges | Closed], until: float) -> bool:
    done, _ = await asyncio.wait({answer}, timeout=max(0.0, until - time.monotonic()))
    return bool(done)


def _progress(changes: JobChanges) -> dict[str, Any]:
    tasks = [
        {
            "task_id": it.id,
            "stage": it.stage,
            "attempt": it.attempt,
            "progress": it.progress,
            "message": it.message,
            "progress_known": it.known,
        }
        for it in changes.running
    ]
    return {"status": changes.status, "progress": changes.progress, "tasks": tasks}


def _end(job_id: UUID, changes: JobChanges) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "status": changes.status,
        "progress": changes.progress,
        "error": changes.error or None,
        "completed_at": changes.completed_at,
    }


def _event(name: str, data: Any, event_id: int | None = None) -> str:
    """JSON has no line breaks, so it is always one `data` line."""
    head = f"event: {name}\n" if event_id is None else f"event: {name}\nid: {event_id}\n"
    return f"{head}data: {msgspec.json.encode(data).decode()}\n\n"

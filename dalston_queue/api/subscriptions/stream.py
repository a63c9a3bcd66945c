"""One follower's server-sent events: every move of a job's tasks once and in order, progress as it changes, the end.

event: task       id: of the move; send it back as Last-Event-ID, and the stream goes on behind it
event: progress   the job and its running tasks, when something of it changed
event: end        the job is over
event: closed     we end it: the token was revoked, or too many follow
: …               a comment every 10 s, so that a dead connection is noticed by both sides
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import msgspec

from dalston_queue.api.errors.problems import Code
from dalston_queue.api.subscriptions.changes import News, Place
from dalston_queue.api.subscriptions.poller import Over, Seat, reader
from dalston_queue.api.subscriptions.subscriber import Guest

HEARTBEAT_S = 10.0
RECONNECT_MS = 2_000

_CLOSED: dict[Over, tuple[Code, str]] = {
    Over.NOT_ALLOWED: (Code.UNAUTHENTICATED, "The token was revoked or changed, or the login is over."),
    Over.JOB_GONE: (Code.NOT_FOUND, "The job does not exist any more."),
}
STREAMS_FULL = "This web process serves as many event streams as it may. Try again, or ask with ?wait=30."


async def follow(guest: Guest, start: Place) -> AsyncGenerator[str]:
    if reader.is_full:  # asked before the answer began, too; this is what holds when many come at once
        yield _message("closed", {"code": Code.STREAMS_FULL, "detail": STREAMS_FULL})
        return
    with reader.seat(guest) as seat:
        yield f"retry: {RECONNECT_MS}\n\n"
        async with aclosing(_messages(seat, start)) as messages:
            async for message in messages:
                yield message


async def _messages(seat: Seat, place: Place) -> AsyncGenerator[str]:
    shown: dict[str, Any] | None = None
    while True:
        asked = reader.ask(seat, place)
        while not (await asyncio.wait({asked}, timeout=HEARTBEAT_S))[0]:
            yield ": still here\n\n"
        news = asked.result()
        if isinstance(news, Over):
            if news in _CLOSED:
                code, detail = _CLOSED[news]
                yield _message("closed", {"code": code, "detail": detail})
            return
        for message in _moves(news):
            yield message
        if news.moves:
            place = Place(place.job_id, news.moves[-1].event_id)
        if (now := _progress(news)) != shown:
            shown = now
            yield _message("progress", now)
        if news.is_over:
            yield _message("end", _end(place, news))
            return


def _moves(news: News) -> Iterator[str]:
    for move in news.moves:
        yield _message("task", move, move.event_id)


def _progress(news: News) -> dict[str, Any]:
    tasks = [
        {
            "task_id": it.id,
            "stage": it.stage,
            "attempt": it.attempt,
            "progress": it.progress,
            "message": it.message,
            "progress_known": it.known,
        }
        for it in news.running
    ]
    return {"status": news.status, "progress": news.progress, "tasks": tasks}


def _end(place: Place, news: News) -> dict[str, Any]:
    return {
        "job_id": place.job_id,
        "status": news.status,
        "progress": news.progress,
        "error": news.error or None,
        "completed_at": news.completed_at,
    }


def _message(event: str, data: Any, event_id: int | None = None) -> str:
    """JSON has no line breaks, so it is always one `data` line."""
    head = f"event: {event}\n" if event_id is None else f"event: {event}\nid: {event_id}\n"
    return f"{head}data: {msgspec.json.encode(data).decode()}\n\n"

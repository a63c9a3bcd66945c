"""One reader per web process asks for everybody who follows a job: two statements a tick, however many there are.

    follower -> ask(seat, place) -> a tick: read_news for all places, still_allowed for seats not checked lately -> News

A follower asks for the next piece when it has sent the last one. A slow one asks less often; nothing piles up for it.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

import structlog
from django.conf import settings
from django.db import DatabaseError, connections
from django.utils import timezone

from dalston_queue.api.subscriptions.changes import News, Place, read_news
from dalston_queue.api.subscriptions.subscriber import Guest, still_allowed

log = structlog.get_logger(__name__)

TICK_S = 0.5
RECHECK_S = 3.0
"""How long a stream may outlive its token."""

_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="job-events")


class Over(StrEnum):
    """Why a follower gets no more news."""

    JOB_GONE = "job_gone"
    NOT_ALLOWED = "not_allowed"
    STOPPING = "stopping"
    """This web process ends; another one goes on from the same place."""


@dataclass(eq=False, slots=True)
class Seat:
    guest: Guest
    checked_at: float = field(default_factory=time.monotonic)


@dataclass(eq=False, slots=True)
class Question:
    seat: Seat
    place: Place
    answer: asyncio.Future[News | Over]


class Reader:
    def __init__(self) -> None:
        self._seats: set[Seat] = set()
        self._questions: list[Question] = []
        self._working: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        return len(self._seats) >= int(settings.DALSTON_MAX_EVENT_STREAMS)

    @contextmanager
    def seat(self, guest: Guest) -> Iterator[Seat]:
        """Held while somebody follows. The reader works while there is a seat."""
        seat = Seat(guest)
        self._seats.add(seat)
        self._working = self._working or asyncio.create_task(self._run())
        try:
            yield seat
        finally:
            self._seats.discard(seat)
            if not self._seats:
                self._working.cancel()
                self._working = None

    def ask(self, seat: Seat, place: Place) -> asyncio.Future[News | Over]:
        """Answered at the next tick that can read. Ask again only after that."""
        answer: asyncio.Future[News | Over] = asyncio.get_running_loop().create_future()
        self._questions.append(Question(seat, place, answer))
        return answer

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            self._questions = [each for each in self._questions if not each.answer.done()]
            if _server_is_stopping():
                self._answer(dict.fromkeys(self._questions, Over.STOPPING))
            elif self._questions:
                try:
                    self._answer(await loop.run_in_executor(_thread, _look, tuple(self._questions)))
                # Followers get their heartbeat meanwhile; the same questions are asked at the next tick.
                except DatabaseError as error:
                    log.warning("job_events.database_unavailable", error=str(error))
                except Exception:
                    log.exception("job_events.not_read")
            await asyncio.sleep(max(0.05, started + TICK_S - loop.time()))

    def _answer(self, answers: dict[Question, News | Over]) -> None:
        for question, answer in answers.items():
            if not question.answer.done():  # the follower may have left while we read
                question.answer.set_result(answer)


def _look(questions: Collection[Question]) -> dict[Question, News | Over]:
    try:
        refused = _refused(questions)
        news = read_news([each.place for each in questions])
        return {
            each: Over.NOT_ALLOWED if each in refused else news.get(each.place, Over.JOB_GONE) for each in questions
        }
    finally:
        connections.close_all()  # back to the pool: between two ticks nobody holds one


def _refused(questions: Collection[Question]) -> set[Question]:
    due = [each for each in questions if time.monotonic() - each.seat.checked_at >= RECHECK_S]
    if not due:
        return set()
    allowed = still_allowed({each.seat.guest for each in due}, timezone.now())
    for each in due:
        each.seat.checked_at = time.monotonic()
    return {each for each in due if each.seat.guest not in allowed}


def _server_is_stopping() -> bool:
    """uvicorn waits for open answers before it ends, and tells nobody; its signal handler is a method of the server."""
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return bool(getattr(server, "should_exit", False))


reader = Reader()
"""Of this process: a web process has one event loop."""

"""Slots that all projects share: event streams and waiting requests. No project takes the last one."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import ExitStack
from uuid import uuid4

import pytest
from pytest_django import Settings

from dalston_queue.api.subscriptions import stream
from dalston_queue.api.subscriptions.changes import Cursor, JobChanges
from dalston_queue.api.subscriptions.job_events import JobEvents, Subscription
from dalston_queue.api.subscriptions.subscriber import Subscriber
from dalston_queue.jobs.lifecycle.states import JobStatus
from dalston_queue.slots import Slots, has_room


def _most(limit: int, taken: int) -> int:
    """How many slots one holder gets while others have so many."""
    own = 0
    while has_room(own, taken + own, limit):
        own += 1
    return own


def test_a_holder_gets_half_of_what_others_leave() -> None:
    taken, shares = 0, []
    for _ in range(12):
        shares.append(_most(500, taken))
        taken += shares[-1]
    assert shares[:4] == [250, 125, 63, 31]
    assert min(shares[:8]) >= 1, "the eighth project still gets one"


def test_a_project_that_takes_all_waits_leaves_slots_for_others() -> None:
    slots = Slots(10)
    with ExitStack() as stack:
        taken = [stack.enter_context(slots.take("attacker")) for _ in range(50)]
        assert taken.count(True) == 5
        with slots.take("other") as free:
            assert free
        inner = stack.enter_context(ExitStack())
        assert [inner.enter_context(slots.take("other")) for _ in range(5)].count(True) == 3
        inner.close()
    assert [_most(10, slots._taken.total()), len(slots._taken)] == [5, 0], "all are free again"


def test_a_project_that_takes_all_streams_leaves_some_for_others(settings: Settings) -> None:
    settings.DALSTON_MAX_EVENT_STREAMS = 8
    source = JobEvents()
    attacker, other = Subscriber(token_id=uuid4(), holder="a"), Subscriber(token_id=uuid4(), holder="b")
    while source.has_room(attacker):
        source._subscriptions.add(Subscription(attacker, Cursor(uuid4(), 0)))
    assert len(source._subscriptions) == 4
    assert source.has_room(other)


class _Quiet:
    """A subscription whose job never changes, polled all the time."""

    def __init__(self) -> None:
        self.cursor = Cursor(uuid4(), 0)
        self.answer: Future[JobChanges] = Future()

    def ask(self) -> None:
        self.answer = Future()
        asyncio.get_running_loop().call_later(0.005, self.answer.set_result, self.changes)

    changes = JobChanges(JobStatus.RUNNING, 0.0, "", None, (), ())


def test_a_quiet_stream_gets_its_comments_though_polls_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_S", 0.05)

    async def read() -> list[str]:
        subscription = _Quiet()
        subscription.ask()
        found: list[str] = []
        async for event in stream._events(subscription):  # type: ignore[arg-type]
            found.append(event)
            if len(found) == 4:
                return found
        return found

    first, *others = asyncio.run(asyncio.wait_for(read(), 10))
    assert first.startswith("event: progress")
    assert others == [": still here\n\n"] * 3

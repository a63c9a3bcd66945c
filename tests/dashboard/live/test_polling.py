"""Shared polling: one source per key, polled while it has subscribers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import OperationalError

from dalston_queue.polling import POLLS_OF_HOLDER, Gone, _turns, subscribed, updates
from tests.support import WAIT_TIMEOUT_S, wait_until


class Counter:
    tick_s = 0.01
    threads = ThreadPoolExecutor(max_workers=1)

    def __init__(self, answers: Iterator[Exception | None] | None = None) -> None:
        self.polls = 0
        self.answers = answers or iter(())

    def poll(self) -> None:
        self.polls += 1
        if error := next(self.answers, None):
            raise error


def test_subscribers_of_a_key_share_one_source_and_another_key_has_its_own() -> None:
    with (
        subscribed("a", Counter) as one,
        subscribed("a", Counter) as two,
        subscribed("b", Counter) as other,
    ):
        assert one is two
        assert one is not other
    with subscribed("a", Counter) as later:
        assert later is not one


def test_a_source_is_polled_until_its_last_subscriber_leaves() -> None:
    with subscribed("a", Counter) as source:
        with subscribed("a", Counter):
            wait_until(lambda: source.polls > 1)
        seen = source.polls
        wait_until(lambda: source.polls > seen + 1)
    source.threads.submit(int).result(WAIT_TIMEOUT_S)  # a poll that was under way has ended
    seen = source.polls
    assert not threading.Event().wait(10 * source.tick_s)
    assert source.polls <= seen + 1


def test_every_subscriber_hears_of_every_poll() -> None:
    async def follow() -> list[int]:
        one, two = updates("a", Counter), updates("a", Counter)
        seen = [source.polls for _ in range(2) for source in await asyncio.gather(anext(one), anext(two))]
        await one.aclose()
        await two.aclose()
        return seen

    assert asyncio.run(asyncio.wait_for(follow(), WAIT_TIMEOUT_S))[-1] > 1


def test_a_coroutine_gets_the_source_after_each_poll_and_at_once_if_it_has_been_polled() -> None:
    async def follow() -> list[int]:
        polls = updates("a", Counter)
        seen = [(await anext(polls)).polls, (await anext(polls)).polls]
        late = updates("a", Counter)
        seen.append((await anext(late)).polls)
        await late.aclose()
        await polls.aclose()
        return seen

    first, second, third = asyncio.run(follow())
    assert 0 < first < second <= third


@pytest.mark.parametrize("error", [OperationalError("away"), ValueError("a bug")])
def test_a_poll_that_fails_is_tried_again(error: Exception) -> None:
    async def follow() -> int:
        async for source in updates("a", lambda: Counter(iter((error, error, None)))):
            return source.polls
        return 0

    assert asyncio.run(follow()) == 3


def test_a_source_that_is_gone_ends_its_subscriptions() -> None:
    async def follow() -> list[int]:
        return [source.polls async for source in updates("a", lambda: Counter(iter((None, Gone("deleted")))))]

    assert asyncio.run(follow()) in ([1], [])


def test_slow_polls_of_one_person_leave_threads_to_others() -> None:
    """Two hundred searches of one viewer, each of its own key, kept the overviews of all others from any update."""
    go, running = threading.Event(), [0, 0]

    class Slow(Counter):
        threads = ThreadPoolExecutor(max_workers=2 * POLLS_OF_HOLDER)

        def poll(self) -> None:
            running[0] += 1
            running[1] = max(running)
            assert go.wait(WAIT_TIMEOUT_S)
            running[0] -= 1
            super().poll()

    class Quick(Counter):
        threads = Slow.threads

    async def look() -> None:
        own = [updates(f"slow {number}", Slow, "attacker") for number in range(8)]
        waiting = [asyncio.ensure_future(anext(each)) for each in [*own, updates("shared", Quick, "attacker")]]
        await asyncio.to_thread(wait_until, lambda: running[0] == POLLS_OF_HOLDER)
        for key in ("quick", "shared"):
            polls = updates(key, Quick, "other")
            for _ in range(3):
                await asyncio.wait_for(anext(polls), WAIT_TIMEOUT_S)
            await polls.aclose()
        for leaving in waiting[:4]:  # whether their polls run or wait
            leaving.cancel()
        go.set()
        await asyncio.wait_for(asyncio.gather(*waiting[4:]), WAIT_TIMEOUT_S)
        for each in own[4:]:
            await each.aclose()

    asyncio.run(look())
    assert running[1] == POLLS_OF_HOLDER
    wait_until(lambda: not _turns.running and not _turns.waiting)

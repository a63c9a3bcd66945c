"""Turns of a web process: a client with many requests at a time leaves others their time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

import dalston_queue.turns
from dalston_queue.turns import ALONE, CHECK_S, PASS_S, SHORT_S, UNKNOWN, Turn, Turns, let_others_pass
from dalston_site.web import pace as paces
from dalston_site.web.handler import OneStepHandler
from dalston_site.web.holders import Holders
from dalston_site.web.pace import BURST, MAX_PACE_S, Pace
from tests.support import wait_until

HEADERS = [(b"authorization", b"Bearer dal_x")]


def test_a_request_of_another_holder_is_next() -> None:
    order: list[str] = []

    async def request(turns: Turns, holder: str) -> None:
        turn = await turns.take(holder)
        await asyncio.sleep(0)
        order.append(holder)
        turn.over()

    async def run() -> None:
        turns = Turns(4)
        crowd = [asyncio.ensure_future(request(turns, "crowd")) for _ in range(50)]
        await asyncio.sleep(0)
        await request(turns, "other")
        await asyncio.gather(*crowd)

    asyncio.run(run())
    assert order.index("other") <= ALONE, "only what worked already, while the crowd was alone, is before"
    assert len(order) == 51


def test_one_holder_has_half_of_the_turns_and_all_get_one_in_the_end() -> None:
    most: dict[str, int] = {}
    working: dict[str, int] = {}

    async def request(turns: Turns, holder: str) -> None:
        turn = await turns.take(holder)
        working[holder] = working.get(holder, 0) + 1
        most[holder] = max(most.get(holder, 0), working[holder])
        most["all"] = max(most.get("all", 0), sum(working.values()))
        await asyncio.sleep(0.001)
        working[holder] -= 1
        turn.over()

    async def run() -> None:
        turns = Turns(4)
        await asyncio.gather(*(request(turns, f"holder {number % 6}") for number in range(60)))
        assert (turns._working, turns._waiting) == ({}, {})

    asyncio.run(run())
    assert most["all"] <= 4
    assert max(most.values()) <= 4 and most["holder 0"] <= 2


def test_an_address_has_one_turn_while_others_come() -> None:
    async def run() -> None:
        turns = Turns(4)
        (await turns.take("project 1")).over()
        first = await turns.take(f"{UNKNOWN}192.0.2.1")
        second = asyncio.ensure_future(turns.take(f"{UNKNOWN}192.0.2.1"))
        third = await turns.take(f"{UNKNOWN}192.0.2.2")
        await asyncio.sleep(0)
        assert not second.done()
        first.over()
        (await second).over()
        third.over()

    asyncio.run(run())


def test_answers_without_a_token_have_a_pace_for_each_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """None waits for more than a second, whatever else comes from its address."""
    every_s, now = 0.02, 1000.0
    pace = Pace(every_s)
    waits = [pace.wait_s("192.0.2.1", now) for _ in range(1000)]
    assert waits[:BURST] == [0.0] * BURST
    assert every_s / 2 < waits[BURST + 1] < 3 * every_s
    assert max(waits) == MAX_PACE_S
    assert pace.wait_s("192.0.2.2", now) == 0.0, "another address has its own"
    assert pace.wait_s("192.0.2.1", now + MAX_PACE_S + BURST * every_s) == 0.0
    monkeypatch.setattr(paces, "MAX_ADDRESSES", 3)
    for number in range(10):
        pace.wait_s(f"198.51.100.{number}", now)
    assert len(pace._next) == 3


def test_a_holder_alone_has_more_until_another_comes() -> None:
    async def run() -> None:
        turns = Turns(4)
        alone = [await turns.take("a") for _ in range(ALONE)]
        other = asyncio.ensure_future(turns.take("b"))
        await asyncio.sleep(0)
        for turn in alone:
            turn.over()
        held = [await turns.take("a"), await turns.take("a")]
        third = asyncio.ensure_future(turns.take("a"))
        await asyncio.wait_for(asyncio.shield(other), 5)
        assert not third.done()
        third.cancel()
        for turn in (*held, other.result()):
            turn.over()

    asyncio.run(run())


def test_a_request_whose_client_goes_while_it_waits_keeps_no_turn() -> None:
    async def run() -> None:
        turns = Turns(2)
        (await turns.take("b")).over()  # so "a" is not alone
        first = await turns.take("a")
        waiting = [asyncio.ensure_future(turns.take("a")) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        first.over()
        await asyncio.sleep(0)
        waiting[1].cancel()  # whether it has just been called or not
        (await waiting[2]).over()
        assert (turns._working, turns._waiting) == ({}, {})

    asyncio.run(run())


def _thread(turn: Turn, act: Callable[[], object]) -> threading.Thread:
    def work() -> None:
        turn.begin()
        act()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_what_waits_for_a_server_keeps_no_turn_and_what_computes_does() -> None:
    done = threading.Event()

    def compute() -> None:
        while not done.is_set():
            sum(range(10_000))

    async def run() -> None:
        turns = Turns(2)
        (await turns.take("b")).over()  # so "a" is not alone
        hanging = await turns.take("a")
        thread = _thread(hanging, lambda: done.wait(30))
        second = await asyncio.wait_for(turns.take("a"), 30)  # the first hangs, and has lost its turn
        computing = _thread(second, compute)
        third = asyncio.ensure_future(turns.take("a"))
        await asyncio.sleep(4 * CHECK_S)
        assert not third.done()
        second.over()
        (await third).over()
        done.set()
        thread.join()
        computing.join()

    asyncio.run(run())


def test_long_work_waits_for_the_short_requests_of_others_but_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        turns = Turns(4)
        long, short = await turns.take("long"), await turns.take("short")
        long.begun -= SHORT_S
        short.begun += 3600
        for _ in range(2):
            began = time.monotonic()
            assert turns.wait_for_short("long"), "while the short one works, at each part"
            assert time.monotonic() - began >= PASS_S
        assert not turns.wait_for_short("short"), "the long one has worked for too long to be waited for"
        monkeypatch.setattr(dalston_queue.turns, "PASS_S", 3600)
        waiting = asyncio.ensure_future(asyncio.to_thread(turns.wait_for_short, "long"))
        await asyncio.to_thread(wait_until, lambda: turns._ended._waiters)  # type: ignore[attr-defined]
        short.over()
        assert await asyncio.wait_for(waiting, 60), "its end ends the wait"
        assert not turns.wait_for_short("long"), "nothing else works"
        (again := await turns.take("short")).begun -= SHORT_S
        assert not turns.wait_for_short("long"), "two that compute for long do not wait for each other"
        for each in (long, again):
            each.over()

    asyncio.run(run())


def test_what_lets_others_pass_keeps_its_turn() -> None:
    """It hardly uses the processor, as if it waited for a server."""

    async def run() -> None:
        turns = Turns(2)
        long, short = await turns.take("a"), await turns.take("b")
        short.begun += 3600
        long.begin()
        for _ in range(3):
            let_others_pass()
            long._check()
            assert long._held
        long._check()
        assert not long._held, "nothing passed, and it did not compute"
        for each in (long, short):
            each.over()

    asyncio.run(run())


def test_only_a_client_that_is_not_known_has_a_pace_and_only_while_others_come(monkeypatch: pytest.MonkeyPatch) -> None:
    paced: list[str] = []

    def wait_s(_: Pace, holder: str, _now: float) -> float:
        paced.append(holder)
        return 0.0

    monkeypatch.setattr(Pace, "wait_s", wait_s)
    scope = {"headers": HEADERS, "client": ("192.0.2.1", 1)}

    async def run() -> None:
        handler = OneStepHandler()
        await handler.keep_pace(scope)
        assert not paced, "it is alone"
        (await handler._turns.take("project 1")).over()
        await handler.keep_pace(scope)
        assert paced == ["address 192.0.2.1"]
        handler._holders.learn(scope, _Request("project 2"))  # type: ignore[arg-type]
        assert await handler.keep_pace(scope) == "project 2"
        assert len(paced) == 1

    asyncio.run(run())


class _Request:
    def __init__(self, holder: str) -> None:
        self.auth = type("Principal", (), {"holder": holder})()


@pytest.mark.parametrize(
    ("cookie", "is_known"),
    [
        (b"sessionid=x", True),
        (b"csrftoken=y; sessionid=x; z=1", True),
        (b"a=b;" * 7000 + b"sessionid=x", True),
        (b"sessionid=y; sessionid=x", True),
        (b"sessionid=x; sessionid=y", False),
        (b"other_sessionid=x", False),
        (b"sessionid=", False),
        (b"a=b;" * 7000, False),
    ],
    ids=[
        "alone",
        "among others",
        "at the end of many",
        "the last",
        "not the last",
        "another name",
        "empty",
        "none of many",
    ],
)
def test_a_session_is_found_in_the_cookie_header(cookie: bytes, is_known: bool) -> None:
    holders = Holders()
    holders.learn({"headers": [(b"cookie", b"sessionid=x")]}, _Request("user 1"))  # type: ignore[arg-type]
    found = holders.of({"headers": [(b"cookie", cookie)], "client": ("192.0.2.1", 1)})
    assert found == ("user 1" if is_known else "address 192.0.2.1")


def test_only_a_credential_that_was_let_in_has_a_turn_of_its_own() -> None:
    holders = Holders(limit=2)
    scope = {"headers": HEADERS, "client": ("192.0.2.1", 1)}
    assert holders.of(scope) == "address 192.0.2.1"
    holders.learn(scope, object())  # type: ignore[arg-type]  # refused: it has no principal
    assert holders.of(scope) == "address 192.0.2.1"
    holders.learn(scope, _Request("project 1"))  # type: ignore[arg-type]
    assert holders.of(scope) == "project 1"
    for number in range(2):
        other = {**scope, "headers": [(b"cookie", b"sessionid=%d" % number)]}
        holders.learn(other, _Request(f"user {number}"))  # type: ignore[arg-type]
    assert holders.of(scope) == "address 192.0.2.1", "no more than the limit are known"

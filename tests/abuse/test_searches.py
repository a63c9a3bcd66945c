"""Slow searches: one token's leave connections and slots to the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from dalston_queue.jobs.errors import SearchTooWide, TooManySearches
from dalston_queue.jobs.queries import search
from dalston_queue.jobs.queries.search import bounded, reader
from dalston_queue.slots import Slots
from tests.api.conftest import Api
from tests.support import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "QUICK_MS", 100)
    monkeypatch.setattr(search, "SEARCH_TIMEOUT_MS", 1500)
    monkeypatch.setattr(search, "SLOW_READS", Slots(4))


class _Reads:
    """Reads of some seconds, by threads, and how many of a holder run at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.running = 0
        self.most = 0

    def slow(self, holder: str, seconds: float) -> str:
        reader.set(holder)
        try:
            return bounded(lambda: self._sleep(seconds))
        except SearchTooWide as error:
            return type(error).__name__
        finally:
            connection.close()

    def _sleep(self, seconds: float) -> str:
        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            is_slow = cursor.fetchone()[0] != "100ms"
            with self._lock:
                self.running += is_slow
                self.most = max(self.most, self.running)
            try:
                cursor.execute("SELECT pg_sleep(%s)", [seconds])
            finally:
                with self._lock:
                    self.running -= is_slow
        return "found"


def test_one_token_runs_two_slow_searches_at_a_time_and_others_still_find_a_slot() -> None:
    reads = _Reads()
    with ThreadPoolExecutor(8) as threads:
        attack = [threads.submit(reads.slow, "attacker", 1.0) for _ in range(6)]
        wait_until(lambda: reads.running == 2, what="two of them run")
        other = _Reads()
        began = time.monotonic()
        assert threads.submit(other.slow, "other", 0.01).result() == "found", "a quick read needs no slot"
        assert threads.submit(other.slow, "other", 0.3).result() == "found", "and there is a slot for a slow one"
        assert time.monotonic() - began < 1.4
        outcomes = [each.result() for each in attack]
    assert reads.most == 2
    assert outcomes.count("found") >= 2
    assert "TooManySearches" in outcomes, "the last ones waited too long for a slot"


def test_a_search_that_takes_too_long_is_ended() -> None:
    assert _Reads().slow("attacker", 60) == "SearchTooWide"


def test_a_search_without_a_slot_is_refused_with_a_time_to_try_again(
    token_for: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object, **__: object) -> None:
        raise TooManySearches("other slow searches of this project run already; try again when they are over")

    monkeypatch.setattr("dalston_queue.api.requests.lists.page_of", busy)
    answer = Api(token_for("read")).get("/tasks?payload=user:42")
    assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
    assert answer.headers["Retry-After"] == "5"


@pytest.mark.parametrize("payload", [".:x", "a.:x", ".a:x", "a..b:x", ":x", "a"])
def test_a_path_with_an_empty_name_is_refused_by_the_schema(token_for: Callable[..., str], payload: str) -> None:
    for noun in ("tasks", "jobs"):
        answer = Api(token_for("read")).get(f"/{noun}?payload={payload}")
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "payload")

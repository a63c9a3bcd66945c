"""Limits: what is in flight and what starts within a minute never exceed them, however many refill at once."""

from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pytest_django import Settings

from dalston_queue.broker import Broker
from dalston_queue.jobs.order.limits import MAX_SKEW, Bucket, applies, locked_limits
from dalston_queue.jobs.order.refill import refill
from dalston_queue.jobs.order.share import Group, WaitingGroup, next_groups
from dalston_queue.jobs.order.spending import Groups, Spending
from dalston_queue.jobs.order.waiting import InFlight
from dalston_queue.models import Limit, Project, Task
from tests.jobs import make
from tests.jobs.make import NOW
from tests.jobs.together import at_once

A, B = UUID(int=1), UUID(int=2)
MINUTE = timedelta(minutes=1)


def per_minute(starts: int, **more: object) -> Limit:
    return Limit(id=1, queue="echo", starts_per_minute=starts, **more)


def starts_at(limit: Limit, times: list[datetime], wanted: list[int]) -> list[datetime]:
    """Take what the bucket allows at each time, as refills do; returns the time of each start."""
    started: list[datetime] = []
    for now, count in zip(times, wanted, strict=True):
        bucket = Bucket.of(limit, now)
        assert bucket is not None
        taken = min(int(bucket.left), count)
        limit.tokens, limit.filled_at = bucket.left - taken, bucket.at
        started += [now] * taken
    return started


@settings(deadline=None)  # a busy machine
@given(
    rate=st.integers(1, 300),
    pauses=st.lists(st.floats(0, 90, allow_nan=False), min_size=1, max_size=200),
    wanted=st.integers(0, 400),
)
@example(rate=1, pauses=[59.9, 0.1, 59.9, 0.1], wanted=10)
@example(rate=60, pauses=[0.25] * 200, wanted=1)
@example(rate=100, pauses=[60.0, 59.0, 0.9] * 20, wanted=400)
def test_no_minute_has_more_starts_than_the_limit(rate: int, pauses: list[float], wanted: int) -> None:
    times = [NOW]
    for pause in pauses:
        times.append(times[-1] + timedelta(seconds=pause))
    started = starts_at(per_minute(rate), times, [wanted] * len(times))
    for first, beyond in zip(started, started[rate:], strict=False):
        assert beyond - first >= MINUTE


@pytest.mark.parametrize("rate", [1, 7, 60, 600])
def test_what_waits_all_the_time_starts_at_the_rate(rate: int) -> None:
    """Over ten minutes, with a refill a second. A twentieth is kept back for the burst at the beginning."""
    times = [NOW + timedelta(seconds=second) for second in range(600)]
    started = starts_at(per_minute(rate), times, [1000] * 600)
    assert 0.94 * 10 * rate <= len(started) <= 10 * rate


def test_a_full_bucket_starts_a_few_at_once_and_names_the_next_start() -> None:
    limit = per_minute(60)
    assert len(starts_at(limit, [NOW] * 2, [100, 100])) == 3
    bucket = Bucket.of(limit, NOW)
    assert bucket is not None and bucket.next_start_s == pytest.approx(60 / 58)
    later = Bucket.of(limit, NOW + timedelta(seconds=2))
    assert later is not None and later.next_start_s == 0


def test_clocks_that_differ_fill_no_second_twice() -> None:
    limit = per_minute(60)
    ahead = NOW + timedelta(seconds=20)
    started = starts_at(limit, [ahead, NOW] * 100, [100] * 200)
    assert len(started) == 3, "the bucket that was full"


def test_a_clock_that_was_far_ahead_stops_nothing_for_long() -> None:
    limit = per_minute(60)
    starts_at(limit, [NOW + 2 * MAX_SKEW], [100])
    assert starts_at(limit, [NOW, NOW + timedelta(seconds=2)], [100, 100]) == [NOW + timedelta(seconds=2)]


def test_a_limit_without_a_rate_has_no_bucket() -> None:
    assert Bucket.of(Limit(queue="echo", max_in_flight=3), NOW) is None


@pytest.mark.parametrize(
    ("limit", "counted"),
    [
        (Limit(queue="echo"), {(A, ""), (A, "x"), (B, "x")}),
        (Limit(project_id=A), {(A, ""), (A, "x")}),
        (Limit(project_id=A, concurrency_key="x"), {(A, "x")}),
        (Limit(project_id=A, concurrency_key="*"), {(A, "x")}),
    ],
)
def test_a_limit_counts_the_groups_in_its_scope(limit: Limit, counted: set[Group]) -> None:
    groups: list[Group] = [(A, ""), (A, "x"), (B, "x")]
    assert {group for group in groups if applies(limit, group)} == counted == set(Groups(groups).under(limit))


def test_each_key_has_the_limit_for_itself() -> None:
    limit = Limit(id=1, queue="echo", project_id=A, concurrency_key="*", max_in_flight=2)
    waiting = [WaitingGroup(A, key, NOW) for key in ("", "x", "y")]
    flying: Counter[Group] = Counter({(A, "x"): 1, (A, ""): 50})
    spending = Spending.of([limit], InFlight(flying), [each.group for each in waiting], NOW)
    chosen = next_groups(waiting, flying, 60, spending.budgets())
    assert [chosen.count((A, key)) for key in ("", "x", "y")] == [57, 1, 2]


def test_a_lowered_limit_starts_nothing_until_enough_have_ended() -> None:
    limit = Limit(id=1, queue="echo", max_in_flight=2)
    flying: Counter[Group] = Counter({(A, ""): 5})
    spending = Spending.of([limit], InFlight(flying), [(A, "")], NOW)
    assert next_groups([WaitingGroup(A, "", NOW)], flying, 10, spending.budgets()) == []


def ready(count: int, key: str = "", queue: str = "echo") -> None:
    for _ in range(count):
        make.claim(make.single(queue, concurrency_key=key or None).job)


def in_flight(**which: object) -> int:
    return Task.objects.filter(status="queued", **which).count()


@pytest.fixture
def refilled(broker: Broker, settings: Settings) -> None:
    """Windows that hold more than these limits allow."""
    settings.DALSTON_WINDOW = 32


@pytest.mark.keeps_keys
@pytest.mark.django_db
def test_a_queue_gets_what_its_limit_allows_and_no_other_does(refilled: None) -> None:
    Limit.objects.create(queue="echo", max_in_flight=3)
    ready(5)
    ready(2, queue="other")
    assert refill(None, NOW) == 5
    assert (in_flight(queue="echo"), in_flight(queue="other")) == (3, 2)


@pytest.mark.keeps_keys
@pytest.mark.django_db
def test_a_project_is_counted_in_all_of_its_queues(refilled: None) -> None:
    Limit.objects.create(project=make.project(), max_in_flight=4)
    ready(3)
    ready(3, queue="other")
    refill(None, NOW)
    assert in_flight() == 4
    assert refill(None, NOW) == 0


@pytest.mark.keeps_keys
@pytest.mark.django_db
def test_each_key_in_a_queue_gets_its_limit(refilled: None) -> None:
    Limit.objects.create(queue="echo", project=make.project(), concurrency_key="*", max_in_flight=1)
    ready(2, "a")
    ready(2, "b")
    ready(2)
    refill(None, NOW)
    assert [in_flight(concurrency_key=key) for key in ("a", "b", "")] == [1, 1, 2]


@pytest.mark.keeps_keys
@pytest.mark.django_db
def test_no_more_are_queued_than_may_start_until_more_may(refilled: None) -> None:
    Limit.objects.create(queue="echo", starts_per_minute=60)
    ready(8)
    assert [refill(None, NOW + timedelta(seconds=second)) for second in (0, 0)] == [3, 0]
    assert refill(None, NOW + timedelta(minutes=1)) == 0, "three wait in the window: all of them may start at once"
    make.move("start", Task.objects.filter(status="queued"))
    assert [refill(None, NOW + timedelta(minutes=1, seconds=second)) for second in (0, 0)] == [3, 0]
    make.move("start", Task.objects.filter(status="queued"))
    assert refill(None, NOW + timedelta(minutes=1, seconds=2)) == 1


@pytest.mark.keeps_keys
@pytest.mark.django_db
def test_a_limit_of_zero_stops_a_queue(refilled: None) -> None:
    Limit.objects.create(queue="echo", max_in_flight=0)
    ready(2)
    assert refill(None, NOW) == 0


@pytest.mark.keeps_keys
@pytest.mark.django_db
def test_the_smallest_of_the_limits_that_apply_decides(refilled: None) -> None:
    Limit.objects.create(queue="echo", max_in_flight=3)
    Limit.objects.create(queue="echo", project=make.project(), concurrency_key="a", max_in_flight=10)
    ready(5, "a")
    refill(None, NOW)
    assert in_flight() == 3


@pytest.mark.keeps_keys
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("limited", "allowed"),
    [({"queue": "echo", "max_in_flight": 5}, 5), ({"queue": "echo", "starts_per_minute": 60}, 3)],
)
def test_refills_at_once_do_not_exceed_a_limit(refilled: None, limited: dict[str, object], allowed: int) -> None:
    """In real threads, for two priorities of one queue: each window has a lock of its own, the limit is one."""
    Limit.objects.create(**limited)
    ready(6)
    for _ in range(6):
        make.claim(make.single("echo", priority="high").job)
    assert sum(at_once(*[lambda: refill(None, NOW)] * 6)) == allowed
    assert in_flight() == allowed


@pytest.mark.keeps_keys
@pytest.mark.django_db(transaction=True)
def test_refills_of_two_queues_do_not_exceed_the_limit_of_their_project(refilled: None) -> None:
    Limit.objects.create(project=make.project(), max_in_flight=5)
    ready(6)
    ready(6, queue="other")
    at_once(*[lambda: refill(["echo"], NOW), lambda: refill(["other"], NOW)] * 3)
    assert in_flight() == 5


@pytest.mark.django_db
def test_limits_are_locked_in_the_order_of_their_ids() -> None:
    project = Project.objects.create(name="a")
    made = [Limit.objects.create(queue=queue, project=project, max_in_flight=1).pk for queue in ("echo", "", "other")]
    with transaction.atomic():
        found = [limit.pk for limit in locked_limits("echo", [(project.pk, "")])]
    assert found == made[:2]
    assert all(first < second for first, second in pairwise(found))

"""Shares: the slots of a queue go to projects by their weights, to the keys of a project equally, the oldest first."""

from collections import Counter
from datetime import timedelta
from uuid import UUID

from dalston_queue.jobs.order.share import Budget, Group, WaitingGroup, next_groups
from tests.jobs.make import NOW

A, B, C = (UUID(int=number) for number in (1, 2, 3))


def waits(project: UUID, key: str = "", *, minutes: float = 0, weight: int = 1) -> WaitingGroup:
    return WaitingGroup(project, key, NOW - timedelta(minutes=minutes), weight)


def counts(chosen: list[Group]) -> Counter[UUID]:
    return Counter(project for project, _ in chosen)


def test_a_group_alone_gets_everything() -> None:
    assert next_groups([waits(A)], {(A, ""): 100}, 3) == [(A, "")] * 3


def test_the_project_with_the_least_in_flight_comes_first_until_both_have_as_many() -> None:
    assert counts(next_groups([waits(A, minutes=60), waits(B)], {(A, ""): 6}, 8)) == {B: 7, A: 1}


def test_what_a_project_has_in_flight_with_other_keys_counts() -> None:
    chosen = next_groups([waits(A, "x"), waits(B)], {(A, "y"): 4}, 4)
    assert counts(chosen) == {B: 4}


def test_weights_give_their_share_of_the_slots() -> None:
    chosen = next_groups([waits(A, weight=3), waits(B)], {}, 400)
    assert counts(chosen) == {A: 300, B: 100}


def test_the_keys_of_a_project_share_its_slots_and_gain_none_for_it() -> None:
    waiting = [waits(A, f"customer-{number}") for number in range(9)] + [waits(B)]
    chosen = next_groups(waiting, {}, 180)
    assert counts(chosen) == {A: 90, B: 90}
    assert set(Counter(key for project, key in chosen if project == A).values()) == {10}


def test_between_equals_the_group_of_the_oldest_task_comes_first() -> None:
    waiting = [waits(A, minutes=1), waits(B, minutes=5), waits(C, minutes=3)]
    assert [project for project, _ in next_groups(waiting, {}, 3)] == [B, C, A]
    waiting = [waits(A, "x", minutes=1), waits(A, "y", minutes=5)]
    assert next_groups(waiting, {}, 1) == [(A, "y")]


def test_of_equals_the_one_with_fewer_in_windows_comes_first() -> None:
    waiting = [waits(A, minutes=5), waits(B, minutes=1)]
    chosen = next_groups(waiting, {(A, ""): 1, (B, ""): 1}, 3, queued={(A, ""): 1})
    assert [project for project, _ in chosen] == [B, A, B]
    waiting = [waits(A, "x", minutes=5), waits(A, "y", minutes=1)]
    assert next_groups(waiting, {(A, "x"): 1, (A, "y"): 1}, 1, queued={(A, "x"): 1}) == [(A, "y")]


def test_a_thousand_groups_with_one_slot_each_get_one_task() -> None:
    waiting = [waits(UUID(int=number), minutes=number) for number in range(1, 1001)]
    assert set(counts(next_groups(waiting, {}, 1000)).values()) == {1}


def test_a_budget_that_is_used_up_blocks_its_groups_and_no_others() -> None:
    both = frozenset({(A, "x"), (A, "y")})
    chosen = next_groups([waits(A, "x"), waits(A, "y"), waits(B)], {}, 10, [Budget(3, both)])
    assert counts(chosen) == {A: 3, B: 7}


def test_the_smallest_of_several_budgets_decides() -> None:
    x, y = (A, "x"), (A, "y")
    budgets = [Budget(5, frozenset({x, y})), Budget(1, frozenset({x})), Budget(100, frozenset({y}))]
    assert Counter(next_groups([waits(*x), waits(*y)], {}, 100, budgets)) == {x: 1, y: 4}


def test_nothing_comes_next_where_nothing_waits_or_a_limit_is_zero() -> None:
    assert next_groups([], {}, 5) == []
    assert next_groups([waits(A)], {}, 5, [Budget(0, frozenset({(A, "")}))]) == []

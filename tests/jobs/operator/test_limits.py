"""Limits and weights are set once, each change with its audit entry; what can't be meant is refused with its field."""

from __future__ import annotations

from typing import Any

import pytest

from dalston_queue.jobs.errors import InvalidLimit, NoSuchProject
from dalston_queue.jobs.operator.limits import LimitScope, remove_limit, set_limit, set_weight
from dalston_queue.models import Limit, OperatorAction, Project
from tests.jobs import make
from tests.jobs.make import NOW
from tests.jobs.together import at_once

WHO: dict[str, Any] = {"actor": "user ada", "reason": "the licence"}


@pytest.fixture
def acme(db: None) -> Project:
    return make.project("acme")


def actions() -> list[tuple[str, str, str, Any, Any]]:
    rows = OperatorAction.objects.order_by("id")
    return list(rows.values_list("action", "target", "reason", "before", "after"))


def test_a_limit_is_made_changed_and_removed_on_record(acme: Project) -> None:
    scope = LimitScope(queue="transcribe", project="acme", concurrency_key="*")
    made = set_limit(scope, 3, None, **WHO)
    changed = set_limit(scope, 5, None, **WHO)
    assert (made.created, made.changed, changed.created, changed.changed) == (True, True, False, True)
    assert changed.limit.pk == made.limit.pk
    assert remove_limit(made.limit.pk, **WHO) is not None
    name, three, five = (
        "queue transcribe, project acme, each key",
        *({"max_in_flight": number, "starts_per_minute": None} for number in (3, 5)),
    )
    assert actions() == [
        ("limit.set", name, "the licence", None, three),
        ("limit.set", name, "the licence", three, five),
        ("limit.remove", name, "the licence", five, {"removed": True}),
    ]
    assert not Limit.objects.exists()


def test_setting_the_same_again_changes_nothing_and_leaves_no_record(acme: Project) -> None:
    scope = LimitScope(project="acme")
    set_limit(scope, 3, 60, **WHO)
    again = set_limit(scope, 3, 60, actor="user bob")
    assert (again.created, again.changed) == (False, False)
    assert remove_limit(again.limit.pk, **WHO) is not None
    assert remove_limit(again.limit.pk, **WHO) is None
    assert set_weight(acme, 1, **WHO) is False
    assert len(actions()) == 2


def test_a_change_keeps_the_starts_that_are_counted(acme: Project) -> None:
    """Otherwise each change would allow a burst."""
    limit = set_limit(LimitScope(queue="echo"), None, 60, **WHO).limit
    Limit.objects.update(tokens=0.25, filled_at=NOW)
    set_limit(LimitScope(queue="echo"), 7, 60, **WHO)
    limit.refresh_from_db()
    assert (limit.tokens, limit.filled_at, limit.max_in_flight) == (0.25, NOW, 7)


@pytest.mark.parametrize(
    ("scope", "numbers", "field"),
    [
        ({}, (1, None), "queue"),
        ({"queue": "Echo!"}, (1, None), "queue"),
        ({"project": "nosuch"}, (1, None), "project"),
        ({"queue": "echo", "concurrency_key": "42"}, (1, None), "project"),
        ({"project": "acme", "concurrency_key": " "}, (1, None), "concurrency_key"),
        ({"project": "acme", "concurrency_key": "a" * 81}, (1, None), "concurrency_key"),
        ({"queue": "echo"}, (None, None), "max_in_flight"),
        ({"queue": "echo"}, (-1, None), "max_in_flight"),
        ({"queue": "echo"}, (10_000_000, None), "max_in_flight"),
        ({"queue": "echo"}, (None, 0), "starts_per_minute"),
        ({"project": "acme", "concurrency_key": "*"}, (1, 60), "starts_per_minute"),
    ],
)
def test_what_is_no_limit_is_refused_with_its_field(
    acme: Project, scope: dict[str, str], numbers: tuple[int | None, int | None], field: str
) -> None:
    with pytest.raises(InvalidLimit) as refused:
        set_limit(LimitScope(**scope), *numbers, **WHO)
    assert refused.value.field == field
    assert not Limit.objects.exists() and not actions()


def test_an_unknown_project_is_another_error_than_a_wrong_number(acme: Project) -> None:
    with pytest.raises(NoSuchProject, match="there is no project 'nosuch'"):
        set_limit(LimitScope(project="nosuch"), 1, None, **WHO)


def test_a_weight_is_set_on_record(acme: Project) -> None:
    assert set_weight(acme, 3, **WHO) is True
    assert Project.objects.get(name="acme").weight == 3
    assert actions() == [("project.weight", "acme", "the licence", {"weight": 1}, {"weight": 3})]
    with pytest.raises(InvalidLimit) as refused:
        set_weight(acme, 0, **WHO)
    assert refused.value.field == "weight"


@pytest.mark.django_db(transaction=True)
def test_of_operators_who_set_the_same_limit_at_once_one_makes_it() -> None:
    scope = LimitScope(queue="echo")
    done = at_once(*[lambda: set_limit(scope, 3, None, **WHO)] * 4)
    assert sorted(each.created for each in done) == [False, False, False, True]
    assert Limit.objects.count() == 1
    assert len(actions()) == 1

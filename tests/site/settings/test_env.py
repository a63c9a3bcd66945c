"""A bad environment variable stops the program, and the message names it."""

import re
from collections.abc import Callable

import pytest

from dalston_site import env
from dalston_site.env import EnvError


def set_to(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("THING", value)


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to(monkeypatch, "  ")
    assert env.text("THING", "default") == "default"
    assert env.integer("THING", 7) == 7
    assert env.flag("THING", True) is True


@pytest.mark.parametrize(
    ("value", "expected"), [("1", True), ("Yes", True), ("on", True), ("0", False), ("OFF", False)]
)
def test_a_flag_takes_the_usual_words(monkeypatch: pytest.MonkeyPatch, value: str, expected: bool) -> None:
    set_to(monkeypatch, value)
    assert env.flag("THING", not expected) is expected


def test_words_are_split_at_commas_and_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to(monkeypatch, "a.example, b.example  c.example")
    assert env.words("THING", []) == ["a.example", "b.example", "c.example"]


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        (lambda: env.flag("THING", False), "maybe", "THING is 'maybe', which is neither yes nor no. Expected 1, true,"),
        (lambda: env.integer("THING", 1), "3.5", "THING is '3.5'. Expected a whole number, such as 30."),
        (lambda: env.decimal("THING", 1), "five", "THING is 'five'. Expected a number, such as 2.5."),
        (lambda: env.decimal("THING", 1), "nan", "THING is 'nan'. Expected a number"),
        (lambda: env.choice("THING", "A", ["A", "B"]), "c", "THING is 'C'. Expected one of A, B."),
        (lambda: env.redis_url("THING"), "localhost:6379", "THING starts with 'localhost'. Expected redis://"),
        (lambda: env.database("THING"), "mysql://u:pw@h/d", "THING starts with 'mysql'. Expected postgres://"),
        (lambda: env.database("THING"), "postgres://u:pw@h:x/d", "THING has a port that is not a number."),
    ],
)
def test_a_bad_value_names_the_variable_and_what_is_expected(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[], object], value: str, message: str
) -> None:
    set_to(monkeypatch, value)
    with pytest.raises(EnvError, match=re.escape(message)) as caught:
        read()
    assert "pw" not in str(caught.value), "a password must not be printed"


def test_a_database_address_becomes_djangos_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to(monkeypatch, "postgres://me:p%40ss@db.example:6543/dalston?sslmode=require")
    assert env.database("THING") == {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "dalston",
        "USER": "me",
        "PASSWORD": "p@ss",
        "HOST": "db.example",
        "PORT": "6543",
        "OPTIONS": {"sslmode": "require"},
        "CONN_HEALTH_CHECKS": True,
    }


def test_without_an_address_there_is_no_database() -> None:
    assert env.database("NOT_SET_ANYWHERE") == {"ENGINE": "django.db.backends.dummy"}


def test_pairs_are_divided_at_their_last_equals_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THING", " a b=x, c=d=y ,,a b=x")
    assert env.pairs("THING") == {"a b": "x", "c=d": "y"}
    for wrong, problem in (
        ("a", "holds 'a', which is no pair"),
        ("=x", "no pair"),
        ("a=", "no pair"),
        ("a=x,a=y", "holds 'a' twice"),
    ):
        monkeypatch.setenv("THING", wrong)
        with pytest.raises(env.EnvError, match=problem):
            env.pairs("THING")

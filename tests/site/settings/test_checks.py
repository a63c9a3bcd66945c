"""System checks: one id per setting, relations of settings, and refusals of an open or incomplete install."""

import sys
from typing import Any

import pytest
from django.core.checks import CheckMessage, run_checks
from pytest_django import Settings

from dalston_site.checks import RELATIONS
from dalston_site.declared import DECLARED, Declaration

GOOD_SECRET = "k7$" * 20 + "abcdef"


def ids(tag: str = "dalston") -> list[str]:
    return [message.id.removeprefix("dalston.") for message in found(tag) if message.id]


def found(tag: str) -> list[CheckMessage]:
    return list(run_checks(tags=[tag]))


def too_low(declaration: Declaration) -> Any:
    if declaration.pattern is not None:
        return "NOT a prefix"
    assert declaration.low is not None
    return declaration.low - 1


def test_the_defaults_are_fine() -> None:
    assert found("dalston") == []


@pytest.mark.parametrize("declaration", DECLARED.values(), ids=lambda declaration: declaration.name)
def test_each_setting_is_checked_under_its_own_id(declaration: Declaration, settings: Settings) -> None:
    setattr(settings, declaration.name, too_low(declaration))
    (message,) = [message for message in found("dalston") if message.id == f"dalston.{declaration.check_id}"]
    assert declaration.name in message.msg
    assert message.hint
    assert "Expected" in message.hint


def test_a_value_above_its_range_is_refused(settings: Settings) -> None:
    settings.DALSTON_TIMEOUT_GROWTH = 11.0
    assert ids() == ["E146"]


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation[3])
def test_each_relation_is_checked(settings: Settings, relation: tuple[str, str, int, str, str]) -> None:
    small, large, factor, check_id, why = relation
    setattr(settings, small, getattr(settings, large) / factor + 1)
    (message,) = [message for message in found("dalston") if message.id == f"dalston.{check_id}"]
    assert small in message.msg
    assert large in message.msg
    assert message.hint == f"Raise it: {why}."


@pytest.fixture
def production(settings: Settings) -> Settings:
    settings.DALSTON_DEV = False
    settings.DEBUG = False
    settings.SECRET_KEY = GOOD_SECRET
    settings.ALLOWED_HOSTS = ["dalston.example.com"]
    return settings


def test_a_complete_production_install_passes(production: Settings) -> None:
    assert ids("server") == []


@pytest.mark.parametrize("secret", ["", "short", "django-insecure-" + "x9!" * 30, "a" * 80])
def test_production_refuses_a_weak_secret_without_showing_it(production: Settings, secret: str) -> None:
    production.SECRET_KEY = secret
    (message,) = found("server")
    assert message.id == "dalston.E002"
    assert not secret or secret not in str(message)


@pytest.mark.parametrize(
    ("name", "value", "check_id"),
    [
        ("DEBUG", True, "E003"),
        ("ALLOWED_HOSTS", [], "E004"),
        ("ALLOWED_HOSTS", ["dalston.example.com", "*"], "E005"),
    ],
)
def test_production_refuses_an_open_or_incomplete_install(
    production: Settings, name: str, value: Any, check_id: str
) -> None:
    setattr(production, name, value)
    assert ids("server") == [check_id]


def test_production_needs_redis(production: Settings) -> None:
    production.REDIS_URL = ""
    assert ids() == ["E001"]


def test_a_bad_map_of_redis_servers_is_named(settings: Settings) -> None:
    settings.DALSTON_REDIS_URLS = "transcribe=redis://other.example:6379/0"
    assert ids() == ["E103"]


def test_sentinels_need_no_other_server(settings: Settings) -> None:
    settings.REDIS_URL = "redis+sentinel://one.example:26379,two.example:26379/dalston/0"
    assert ids() == []


def test_development_may_be_open(production: Settings) -> None:
    production.DALSTON_DEV = True
    production.SECRET_KEY = "short"
    production.ALLOWED_HOSTS = ["*"]
    assert ids("server") == []


@pytest.fixture
def signed_in_by_a_provider(settings: Settings) -> Settings:
    settings.DALSTON_OIDC_ISSUER = "https://login.example.com"
    settings.DALSTON_OIDC_CLIENT_ID = "dalston"
    settings.DALSTON_OIDC_ROLES = {"gpu-ops": "operator", "platform": "superuser"}
    return settings


def test_a_provider_that_is_configured_in_full_passes(signed_in_by_a_provider: Settings) -> None:
    signed_in_by_a_provider.DALSTON_LOCAL_LOGIN = False
    assert ids("server") == []


@pytest.mark.parametrize(
    ("name", "value", "check_id"),
    [
        ("DALSTON_OIDC_CLIENT_ID", "", "E009"),
        ("DALSTON_OIDC_ROLES", {}, "E010"),
        ("DALSTON_OIDC_ROLES", {"gpu-ops": "operators"}, "E010"),
    ],
)
def test_a_provider_by_which_no_user_could_sign_in_is_refused(
    signed_in_by_a_provider: Settings, name: str, value: object, check_id: str
) -> None:
    setattr(signed_in_by_a_provider, name, value)
    assert ids("server") == [check_id]


def test_a_provider_without_its_extra_is_refused(
    signed_in_by_a_provider: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "authlib", None)  # as if it were not installed
    [message] = found("server")
    assert message.id == "dalston.E008" and "dalston[server,oidc]" in (message.hint or "")


@pytest.mark.parametrize(
    "issuer",
    ["http://login.example.com", "login.example.com", "https://a b", "https://a?b", "http://127.0.0.1.evil.example"],
)
def test_an_issuer_without_tls_is_refused(signed_in_by_a_provider: Settings, issuer: str) -> None:
    signed_in_by_a_provider.DALSTON_OIDC_ISSUER = issuer
    assert ids() == ["E351"]


def test_without_passwords_and_without_a_provider_no_user_could_sign_in(settings: Settings) -> None:
    settings.DALSTON_LOCAL_LOGIN = False
    assert ids("server") == ["E007"]

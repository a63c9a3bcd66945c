"""Answers of the provider: the right one signs in; forged, foreign, late and repeated ones do not."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.dashboard.sign_in import provider as configured
from dalston_queue.models import LoginAttempt, OperatorAction
from dalston_site.support import doctor
from supervisor.findings import Grade
from tests.dashboard.sign_in.conftest import Browser
from tests.oidc import Provider
from tests.tools.oidc_provider import ADA


def test_a_person_with_a_role_signs_in_and_it_is_on_record(
    provider: Provider, browser: Browser, settings: Settings
) -> None:
    settings.DALSTON_OIDC_SESSION_S = 3600
    assert browser.sign_in("/jobs/?status=failed")[:2] == (302, "/jobs/?status=failed")
    assert browser.is_in()
    user = User.objects.get()
    assert (user.username, user.has_usable_password(), user.is_superuser) == ("ada", False, False)
    assert [group.name for group in user.groups.all()] == ["operator"]
    assert browser.asked["code_challenge_method"] == "S256" and len(browser.asked["nonce"]) >= 20
    assert set(browser.asked["scope"].split()) == {"openid", "profile", "email"}
    left = browser.client.session.get_expiry_date() - timezone.now()
    assert 3500 < left.total_seconds() <= 3600, "the session has an end, whatever is done in it"
    made, entered = OperatorAction.objects.order_by("id")
    assert (made.action, made.target, made.actor) == ("user.create", "ada", f"provider {provider.issuer}")
    assert made.after == {"is_active": True, "groups": ["operator"], "is_superuser": False, "subject": ADA["sub"]}
    assert (entered.action, entered.target, entered.actor) == ("login", "user ada", "user ada")
    assert entered.after["by"] == "provider"
    assert not LoginAttempt.objects.exists(), "a sign-in that succeeds is no failed try"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("audience", "Invalid claim: 'aud'"),
        ("authorized_party", "Invalid claim: 'aud'"),
        ("issuer", "Invalid claim: 'iss'"),
        ("expired", "expired"),
        ("nonce", "Invalid claim: 'nonce'"),
        ("no_nonce", "Missing claim: 'nonce'"),
        ("at_hash", "Invalid claim: 'at_hash'"),
        ("signature", "BadSignatureError"),
        ("none", "Algorithm of 'none' is not allowed"),
        ("hs256", "Algorithm of 'HS256' is not allowed"),
        ("no_id_token", "the answer has no id_token"),
    ],
)
def test_an_answer_that_is_not_valid_is_no_sign_in(
    provider: Provider, browser: Browser, caplog: pytest.LogCaptureFixture, fault: str, reason: str
) -> None:
    provider.control(fault=fault)
    status, _, page = browser.sign_in()
    assert status == 502
    assert "The answer of Example &amp; Co is not valid, so it was not believed" in page
    assert not browser.is_in()
    assert not User.objects.exists() and not OperatorAction.objects.exists()
    assert LoginAttempt.objects.count() == 1
    lines = [record.msg for record in caplog.records if record.name.startswith(("dalston", "django"))]
    assert [entry for entry in lines if isinstance(entry, dict) and reason in entry["error"]], lines
    code = parse_qs(urlsplit(browser.back).query)["code"][0]
    assert not [entry for entry in lines if code in str(entry)], "the code is in no log"


def test_an_answer_counts_once(provider: Provider, browser: Browser) -> None:
    assert browser.sign_in()[0] == 302
    browser.client.post("/logout/")
    provider.control()
    status, _, page = browser.come_back()
    assert status == 400 and "was used before, is too old, or belongs to another browser" in page
    assert not browser.is_in()
    assert provider.seen() == [], "the provider is not even asked"


def test_an_answer_that_failed_counts_once_as_well(provider: Provider, browser: Browser) -> None:
    provider.control(fault="token_down")
    assert browser.sign_in()[0] == 503
    provider.control()
    assert browser.come_back()[0] == 400


def test_an_answer_in_another_browser_is_no_sign_in(browser: Browser) -> None:
    """Or a person could be signed in as an attacker, and work in the attacker's name."""
    browser.go()
    other = Browser()
    other.back = browser.back
    assert other.come_back()[0] == 400
    assert not other.is_in()
    assert browser.come_back()[0] == 302


def test_an_answer_with_another_state_or_of_another_issuer_is_refused(provider: Provider, browser: Browser) -> None:
    browser.go()
    right = browser.back
    browser.back = right.replace("state=", "state=x")
    assert browser.come_back()[0] == 400
    browser.back = right.replace("iss=", "iss=https%3A%2F%2Felsewhere.example&x=")
    assert browser.come_back()[0] == 502
    assert "/token" not in provider.seen()


def test_an_answer_comes_too_late(browser: Browser) -> None:
    browser.go()
    session = browser.client.session
    [(state, kept)] = session["sign_in"].items()
    session["sign_in"] = {state: {**kept, "until": timezone.now().timestamp() - 1}}
    session.save()
    assert browser.come_back()[0] == 400


def test_who_cancels_at_the_provider_reads_so_in_our_words(provider: Provider, browser: Browser) -> None:
    provider.control(fault="denied")
    status, _, page = browser.sign_in()
    assert status == 403 and "did not let you in, or you cancelled it there" in page
    assert "text of others" not in page, "a URL is made by any page"


@pytest.mark.parametrize("fault", ["down", "discovery"])
def test_a_provider_that_is_broken_is_named_and_locks_no_user_out(
    provider: Provider, settings: Settings, fault: str
) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    User.objects.create_user("root", password="a long pass phrase")
    provider.control(fault=fault)
    configured._kept.clear()
    answer = Client().get("/login/provider/")
    page = answer.content.decode()
    if fault == "down":
        assert answer.status_code == 503 and answer["Retry-After"] == "10"
        assert "Example &amp; Co does not answer" in page and "sign in with a password" in page
    else:
        assert answer.status_code == 502
    assert Client().post("/login/", {"username": "root", "password": "a long pass phrase"}).status_code == 302
    row = OperatorAction.objects.get()
    assert (row.action, row.actor, row.after) == ("login", "user root", {"by": "password"})


def test_a_new_key_of_the_provider_is_read_when_a_token_names_it(provider: Provider) -> None:
    assert Browser().sign_in()[0] == 302
    provider.change_key()
    assert Browser().sign_in()[0] == 302
    assert "/keys" in provider.seen()


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_provider_that_hangs_takes_few_threads_and_for_a_bounded_time(
    provider: Provider, settings: Settings, silent: str
) -> None:
    settings.DALSTON_OIDC_ISSUER, settings.DALSTON_OIDC_TIMEOUT_S = silent, 0.2
    answer = Client().get("/login/provider/")
    assert answer.status_code == 503 and answer["Retry-After"] == "10"
    with ExitStack() as taken:
        for _ in range(configured.exchanges.limit):
            assert taken.enter_context(configured.exchanges.take())
        settings.DALSTON_OIDC_TIMEOUT_S = 60.0
        assert Client().get("/login/provider/").status_code == 503, "one more does not wait at all"


def test_a_provider_that_is_gone_is_named_within_its_timeout(settings: Settings, provider: Provider) -> None:
    settings.DALSTON_OIDC_ISSUER = "http://127.0.0.1:9"
    assert Client().get("/login/provider/").status_code == 503


@pytest.mark.parametrize(
    "wanted", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "http:///evil"]
)
def test_it_leads_to_no_page_but_ours(browser: Browser, wanted: str) -> None:
    assert browser.sign_in(wanted)[:2] == (302, "/")
    assert browser.client.get("/login/provider/", {"next": wanted})["Location"] == "/"


def test_one_address_may_not_begin_without_end(provider: Provider, settings: Settings) -> None:
    settings.DALSTON_LOGIN_TRIES_ADDRESS = 3
    assert [Client().get("/login/provider/").status_code for _ in range(3)] == [302, 302, 302]
    refused = Client().get("/login/provider/")
    assert refused.status_code == 429 and "Try again in 5 min" in refused.content.decode()
    assert Client(REMOTE_ADDR="192.0.2.7").get("/login/provider/").status_code == 302


def test_a_browser_keeps_few_sign_ins_that_were_begun(browser: Browser) -> None:
    for _ in range(7):
        browser.go()
    assert len(browser.client.session["sign_in"]) == 5
    assert browser.come_back()[0] == 302
    assert "sign_in" not in browser.client.session, "what was begun before is of no use to who is signed in"


def test_the_doctor_asks_the_provider(provider: Provider, settings: Settings, silent: str) -> None:
    [found] = doctor.sign_in()
    assert found.grade is Grade.OK
    provider.control(fault="discovery")
    [found] = doctor.sign_in()
    assert found.grade is Grade.DEGRADED and "the discovery document is not of the issuer" in found.text
    settings.DALSTON_OIDC_ISSUER, settings.DALSTON_OIDC_TIMEOUT_S = silent, 0.2
    settings.DALSTON_LOCAL_LOGIN = False
    [found] = doctor.sign_in()
    assert found.grade is Grade.BROKEN and f"{silent} can't be asked (ReadTimeout): check" in found.text
    settings.DALSTON_OIDC_ISSUER = ""
    assert list(doctor.sign_in()) == []


def test_without_a_provider_there_is_none(client: Client, db: None) -> None:
    assert [client.get(f"/login/provider/{page}").status_code for page in ("", "back/", "sign-out/")] == [404, 404, 404]
    assert "/login/provider/" not in client.get("/login/").content.decode()

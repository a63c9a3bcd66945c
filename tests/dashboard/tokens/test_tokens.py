"""The page of tokens: every role makes what it may itself, sees its own, and revokes them."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from dalston_queue.accounts import tokens
from dalston_queue.accounts.roles import Role
from dalston_queue.models import ApiToken, OperatorAction, Project
from dalston_queue.models.accounts import Scope
from tests.api.conftest import Api
from tests.dashboard.people import logged_in, person

pytestmark = pytest.mark.django_db
TEXT = re.compile(r"dal_[\w-]{43}")


@pytest.fixture
def demo() -> Project:
    return Project.objects.create(name="demo")


def make(browser: Client, **changed: object) -> tuple[int, str]:
    fields = {"name": "import", "project": "demo", "scope": ["read"], "expires": "30", "rate": "", **changed}
    answer = browser.post("/tokens/create/", fields)
    assert "no-store" in answer["Cache-Control"]
    return answer.status_code, answer.content.decode()


def test_a_token_is_shown_once_works_and_is_on_record(demo: Project) -> None:
    ada = logged_in("ada", Role.OPERATOR)
    status, page = make(ada, scope=["submit", "read"], rate="limited")
    [text] = TEXT.findall(page)
    token = ApiToken.objects.get()
    assert (status, token.project, token.scopes) == (200, demo, ["submit", "read"])
    assert (token.rate_preset, token.created_by.get_username()) == ("limited", "ada")
    assert abs(token.expires_at - timezone.now() - timedelta(days=30)) < timedelta(minutes=1)
    assert Api(text).get("/jobs").status_code == 200
    later = ada.get("/tokens/").content.decode()
    assert "import" in later and "by <bdi>ada</bdi>" in later and not TEXT.search(later)
    row = OperatorAction.objects.get()
    assert (row.action, row.actor, row.target) == ("token.issue", "user ada", str(token.pk))
    assert text not in str([row.before, row.after, row.reason])


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        (Role.VIEWER, {"read"}),
        (Role.OPERATOR, {"submit", "read", "operate"}),
        (Role.ADMIN, {"submit", "read", "operate", "worker"}),
    ],
)
def test_no_token_may_do_more_than_the_role_of_who_makes_it(demo: Project, role: Role, allowed: set[str]) -> None:
    browser = logged_in("ada", role)
    offered = set(re.findall(r'name="scope" value="(\w+)"', browser.get("/tokens/").content.decode()))
    made = {scope.value for scope in Scope if make(browser, scope=[scope.value])[0] == 200}
    assert offered == made == allowed
    for scope in set(Scope) - allowed:
        status, page = make(browser, scope=["read", scope.value])
        assert (status, f"your role may not give {scope}" in page) == (400, True)
    assert ApiToken.objects.count() == OperatorAction.objects.count() == len(allowed)


def test_a_person_sees_and_revokes_their_own_and_an_admin_all(demo: Project) -> None:
    ada, bob, root = logged_in("ada", Role.OPERATOR), logged_in("bob", Role.OPERATOR), logged_in("root", Role.ADMIN)
    make(ada, name="of ada")
    token = ApiToken.objects.get()
    path = f"/tokens/{token.pk}/revoke/"
    assert "of ada" not in bob.get(f"/tokens/?revoke={token.pk}").content.decode()
    assert bob.post(path).status_code == 404
    assert ada.get(path).status_code == 405
    assert "of ada" in root.get("/tokens/").content.decode()
    confirm = ada.get(f"/tokens/?revoke={token.pk}").content.decode()
    assert f'action="{path}"' in confirm and "It was never used." in confirm
    assert ApiToken.objects.get().revoked_at is None, "asking is not revoking"
    assert "It is refused from now on" in ada.post(path, follow=True).content.decode()
    assert "was revoked before" in root.post(path, follow=True).content.decode()
    assert OperatorAction.objects.filter(action="token.revoke").count() == 1


def test_a_revoked_token_is_refused_with_its_next_request(demo: Project) -> None:
    ada = logged_in("ada", Role.VIEWER)
    [text] = TEXT.findall(make(ada)[1])
    assert Api(text).get("/jobs").status_code == 200
    ada.post(f"/tokens/{ApiToken.objects.get().pk}/revoke/")
    assert Api(text).get("/jobs").json()["code"] == "token_revoked"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"name": " "}, "Name: write what it is for"),
        ({"name": "x" * 121}, "Name: write what it is for"),
        ({"project": "nowhere"}, "Project: there is none of this name"),
        ({"scope": []}, "Scopes: choose at least one"),
        ({"scope": ["root"]}, "may not give root"),
        ({"expires": "36500"}, "Expires: choose one"),
        ({"rate": "fast"}, "Rate: choose one"),
    ],
)
def test_a_refused_form_says_why_and_keeps_what_was_written(
    demo: Project, changed: dict[str, object], message: str
) -> None:
    browser = logged_in("ada", Role.ADMIN)
    status, page = make(browser, **{"name": "<b>mine</b>", **changed})
    assert (status, message in page) == (400, True)
    assert "<b>mine</b>" not in page and ("name" in changed or "&lt;b&gt;mine" in page)
    assert not ApiToken.objects.exists() and not OperatorAction.objects.exists()


def test_states_are_shown_and_revoked_ones_come_last(demo: Project) -> None:
    root = person("root", Role.ADMIN)
    past = timezone.now() - timedelta(days=1)
    for name, expires in (("old", past), ("gone", None), ("fresh", None)):
        tokens.issue(demo, name, ["read"], actor="test", user=root, expires_at=expires)
    tokens.revoke(ApiToken.objects.filter(name="gone"), actor="test")
    browser = Client()
    browser.force_login(root)
    page = browser.get("/tokens/").content.decode()
    assert re.findall(r'class="chip (\w+)">(\w+)<', page) == [
        ("ok", "valid"),
        ("wait", "expired"),
        ("quiet", "revoked"),
    ]


def test_without_a_login_there_is_no_page(client: Client) -> None:
    assert client.get("/tokens/")["Location"].startswith("/login/")
    assert client.post("/tokens/create/")["Location"].startswith("/login/")


def test_a_viewer_without_tokens_reads_what_one_is_for() -> None:
    page = logged_in("ada", Role.VIEWER).get("/tokens/").content.decode()
    assert "No token of yours yet." in page

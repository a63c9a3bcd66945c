"""The password page: for every role, throttled, on record, and the end of other sessions."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from dalston_queue.models import OperatorAction

OLD, NEW = "a long pass phrase", "another long pass phrase"
pytestmark = pytest.mark.django_db


@pytest.fixture
def ada(settings: Settings) -> User:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    return User.objects.create_user("ada", password=OLD)


@pytest.fixture
def browser(ada: User) -> Client:
    client = Client()
    client.force_login(ada)
    return client


def change(browser: Client, old: str = OLD, new: str = NEW, again: str = NEW) -> tuple[int, str]:
    fields = {"old_password": old, "new_password1": new, "new_password2": again}
    answer = browser.post("/password/", fields, follow=True)
    return answer.status_code, answer.content.decode()


def test_a_viewer_changes_their_own_password(browser: Client, ada: User) -> None:
    elsewhere = Client()
    elsewhere.force_login(ada)
    assert 'href="/password/"' in browser.get("/password/").content.decode(), "the name on each page leads there"
    status, page = change(browser)
    assert status == 200 and "Your password is changed" in page
    assert browser.get("/password/").status_code == 200, "this session goes on"
    assert elsewhere.get("/password/").status_code == 302, "the others do not"
    assert Client().login(username="ada", password=NEW) and not Client().login(username="ada", password=OLD)
    row = OperatorAction.objects.get()
    assert (row.action, row.target, row.actor) == ("change_password", "user ada", "user ada")
    assert NEW not in str([row.before, row.after, row.reason])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"old": "wrong"}, "Your old password was entered incorrectly"),
        ({"new": "short", "again": "short"}, "This password is too short"),
        ({"again": "something else entirely"}, "The two password fields didn"),
    ],
)
def test_a_change_that_is_refused_says_why_and_changes_nothing(
    browser: Client, ada: User, fields: dict[str, str], message: str
) -> None:
    status, page = change(browser, **fields)
    assert status == 200 and message in page
    ada.refresh_from_db()
    assert ada.check_password(OLD)
    assert not OperatorAction.objects.exists()


def test_the_old_password_cannot_be_guessed_here(browser: Client, settings: Settings) -> None:
    settings.DALSTON_LOGIN_TRIES_ACCOUNT = 3
    assert [change(browser, old="wrong")[0] for _ in range(3)] == [200, 200, 200]
    status, page = change(browser)
    assert status == 429 and "Too many tries. Try again in" in page


def test_it_needs_a_login() -> None:
    assert Client().get("/password/")["Location"] == "/login/?next=/password/"
    assert Client().post("/password/")["Location"] == "/login/?next=/password/"

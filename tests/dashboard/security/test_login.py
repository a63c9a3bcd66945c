"""The login throttle: per account and per address, says when to try again, and is the same for every name."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.accounts import login_throttle
from dalston_queue.models import LoginAttempt

PASSWORD = "a long pass phrase"


@pytest.fixture(autouse=True)
def quick(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.DALSTON_LOGIN_TRIES_ACCOUNT = 3
    settings.DALSTON_LOGIN_TRIES_ADDRESS = 5


def log_in(name: str = "ada", password: str = "wrong", address: str = "192.0.2.1") -> tuple[int, str]:
    client = Client(REMOTE_ADDR=address)
    answer = client.post("/login/", {"username": name, "password": password})
    return answer.status_code, answer.content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["ada", "no-such-user"])
def test_after_too_many_tries_an_account_is_refused_whether_it_exists_or_not(name: str) -> None:
    User.objects.create_user("ada", password=PASSWORD)
    assert [log_in(name)[0] for _ in range(3)] == [200, 200, 200]
    status, page = log_in(name, PASSWORD)
    assert status == 429, "the right password is not checked either"
    assert "Try again in 5 min, at " in page
    assert log_in(name.upper(), PASSWORD)[0] == 429, "another spelling is the same account"
    assert log_in("bea", address="192.0.2.2")[0] == 200, "other accounts are not affected"
    assert LoginAttempt.objects.count() == 4, "a refused try is not counted"


@pytest.mark.django_db
def test_one_address_may_not_try_every_account() -> None:
    assert {log_in(f"user-{number}")[0] for number in range(5)} == {200}
    assert log_in("user-9")[0] == 429
    assert log_in("user-9", address="192.0.2.9")[0] == 200


@pytest.mark.django_db
def test_a_login_resets_the_count_and_the_window_slides(settings: Settings) -> None:
    User.objects.create_user("ada", password=PASSWORD)
    assert [log_in()[0], log_in()[0], log_in(password=PASSWORD)[0]] == [200, 200, 302]
    assert not LoginAttempt.objects.exists()
    for _ in range(3):
        log_in()
    oldest = LoginAttempt.objects.order_by("at").first()
    LoginAttempt.objects.filter(pk=oldest.pk).update(at=oldest.at - timedelta(seconds=200))
    wait = login_throttle.count_attempt("ada", "192.0.2.1", timezone.now())
    assert timedelta(seconds=90) < wait < timedelta(seconds=101), "until the oldest of the three is out of the window"
    LoginAttempt.objects.filter(pk=oldest.pk).update(at=oldest.at - timedelta(seconds=301))
    assert login_throttle.count_attempt("ada", "192.0.2.1", timezone.now()) is None


@pytest.mark.django_db(transaction=True)
def test_parallel_guesses_are_counted_one_after_the_other() -> None:
    def guess(_: int) -> bool:
        try:
            return login_throttle.count_attempt("ada", "192.0.2.1", timezone.now()) is None
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(guess, range(8))) == 3


def test_addresses_of_one_network_are_one() -> None:
    assert login_throttle.network_of("2001:db8::1") == login_throttle.network_of("2001:db8::ffff:2")
    assert login_throttle.network_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert login_throttle.network_of("") == "unknown"


@pytest.mark.django_db
def test_the_admin_has_no_form_of_its_own(client: Client) -> None:
    """A second form would be a second, unthrottled way to guess."""
    answer = client.post("/admin/login/", {"username": "ada", "password": "x", "next": "/admin/"})
    assert (answer.status_code, answer["Location"]) == (302, "/login/?next=%2Fadmin%2F")

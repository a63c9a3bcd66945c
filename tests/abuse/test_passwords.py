"""The admin: its own change of password is the dashboard's, which is throttled. Invented object URLs are a 404."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

pytestmark = pytest.mark.django_db
OLD, NEW = "correct-horse-battery", "staple-battery-horse-9"


@pytest.fixture
def person(client: Client) -> Client:
    user = User.objects.create_superuser("ada", password=OLD)
    client.force_login(user)
    return client


def test_the_admin_changes_no_password_past_the_throttle(person: Client) -> None:
    form = {"old_password": OLD, "new_password1": NEW, "new_password2": NEW}
    answer = person.post("/admin/password_change/", form)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/password/")
    assert User.objects.get().check_password(OLD)
    assert person.get("/admin/password_change/").status_code == 302


@pytest.mark.parametrize("path", ["/admin/r/1/1/", "/admin/r/999/x/", "/admin/r/x/%00/"])
def test_an_invented_object_url_is_not_found(person: Client, path: str) -> None:
    assert person.get(path).status_code == 404

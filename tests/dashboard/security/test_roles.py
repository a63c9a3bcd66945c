"""Roles: what each may do on the pages, over the API and in the admin."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from dalston_queue.accounts.roles import Role, may_administer, may_operate, role_of
from dalston_queue.models import OperatorAction
from tests.dashboard.people import logged_in, person

pytestmark = pytest.mark.django_db


def test_the_migration_makes_the_three_groups() -> None:
    assert set(Group.objects.values_list("name", flat=True)) >= {"viewer", "operator", "admin"}


def test_the_highest_group_counts_and_none_is_a_viewer() -> None:
    user = User.objects.create_user("ada")
    assert role_of(user) is Role.VIEWER
    user = User.objects.get(pk=user.pk)
    user.groups.add(Group.objects.get(name="viewer"), Group.objects.get(name="operator"))
    assert role_of(user) is Role.OPERATOR
    assert may_operate(user)
    assert not may_administer(user)
    assert role_of(User.objects.create_superuser("root")) is Role.ADMIN


def test_the_staff_flag_alone_opens_nothing(client: Client) -> None:
    user = User.objects.create_user("bea", is_staff=True)
    client.force_login(user)
    assert not may_operate(user)
    assert client.get("/admin/login/", follow=True).status_code == 403


def test_a_switched_off_account_is_no_operator() -> None:
    user = person("ada", Role.ADMIN)
    user.is_active = False
    assert role_of(user) is Role.VIEWER


@pytest.mark.parametrize(
    ("role", "tasks", "add_token", "users", "add_schedule"),
    [
        (Role.VIEWER, 302, 302, 302, 302),
        (Role.OPERATOR, 200, 403, 403, 200),
        (Role.ADMIN, 200, 200, 200, 200),
    ],
)
def test_the_admin_opens_by_role(
    role: Role, tasks: int, add_token: int, users: int, add_schedule: int, db: None
) -> None:
    client = logged_in("ada", role)
    opened = {
        "/admin/dalston_queue/task/": tasks,
        "/admin/dalston_queue/apitoken/add/": add_token,
        "/admin/auth/user/": users,
        "/admin/dalston_queue/schedule/add/": add_schedule,
    }
    assert {path: client.get(path).status_code for path in opened} == opened


def test_the_admin_sends_to_the_one_login_form_and_back(client: Client) -> None:
    assert client.get("/admin/", follow=True).redirect_chain[-1][0] == "/login/?next=%2Fadmin%2F"


def test_a_change_of_role_in_the_admin_is_audited() -> None:
    client, user = logged_in("root", Role.ADMIN), person("bea", Role.VIEWER)
    form = {"username": "bea", "is_active": "on", "groups": [Group.objects.get(name="operator").pk]}
    answer = client.post(f"/admin/auth/user/{user.pk}/change/", form)
    assert answer.status_code == 302
    assert role_of(User.objects.get(pk=user.pk)) is Role.OPERATOR
    row = OperatorAction.objects.get(action="user.change")
    assert (row.actor, row.target, row.before["groups"], row.after["groups"]) == (
        "user root",
        "bea",
        ["viewer"],
        ["operator"],
    )


def test_only_an_admin_manages_users(operator: Client) -> None:
    form = {"username": "new", "password1": "a long pass phrase", "password2": "a long pass phrase"}
    assert operator.post("/admin/auth/user/add/", form).status_code == 403
    assert not User.objects.filter(username="new").exists()


def test_a_viewer_reads_over_the_session_api_and_an_operator_pauses(viewer: Client, operator: Client) -> None:
    assert viewer.get("/api/v1/tasks").status_code == 200
    assert viewer.post("/api/v1/streams/echo/pause", {"reason": "x"}, "application/json").status_code == 403
    assert operator.post("/api/v1/streams/none/pause", {"reason": "x"}, "application/json").status_code == 404

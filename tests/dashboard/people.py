"""People with a role, logged in without a password: hashing one takes longer than most tests."""

from __future__ import annotations

from django.contrib.auth.models import Group, User
from django.test import Client

from dalston_queue.accounts.roles import Role


def give_role(user: User, role: Role) -> None:
    """Set the user's only role."""
    user.groups.set([Group.objects.get(name=role)])


def person(name: str, role: Role) -> User:
    user = User.objects.create_user(name)
    give_role(user, role)
    return User.objects.get(pk=user.pk)


def logged_in(name: str, role: Role) -> Client:
    client = Client()
    client.force_login(person(name, role))
    return client

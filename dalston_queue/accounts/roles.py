"""Roles on the pages and in the admin: three groups, made by the migration.

viewer    sees everything; the role of a user without a group
operator  changes work: cancel, replay, pause, drain; recurring jobs and limits in the admin
admin     also manages users, projects and tokens; a superuser is one

Django's staff flag is not used: two sources of one person's role would differ one day.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypedDict

from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


_RANKS = list(Role)
_SEEN = "_dalston_role"


def role_of(user: AbstractBaseUser | AnonymousUser) -> Role:
    """The highest role of the user's groups. Read once per request: the user object caches it."""
    if not isinstance(user, User) or not user.is_active:
        return Role.VIEWER
    seen: Role | None = getattr(user, _SEEN, None)
    if seen is None:
        seen = _read(user)
        setattr(user, _SEEN, seen)
    return seen


def _read(user: User) -> Role:
    if user.is_superuser:
        return Role.ADMIN
    names = user.groups.filter(name__in=_RANKS).values_list("name", flat=True)
    return max((Role(name) for name in names), key=_RANKS.index, default=Role.VIEWER)


def may_operate(user: AbstractBaseUser | AnonymousUser) -> bool:
    return role_of(user) is not Role.VIEWER


def may_administer(user: AbstractBaseUser | AnonymousUser) -> bool:
    return role_of(user) is Role.ADMIN


class Person(TypedDict):
    actor: str
    user: User


def person(request: HttpRequest) -> Person:
    """The signature of the logged-in user for `audited(...)`."""
    if not isinstance(request.user, User):
        raise PermissionDenied
    return Person(actor=f"user {request.user.get_username()}", user=request.user)


_QUEUE = "dalston_queue"
_OPERATORS_EDIT = {"schedule", "limit"}
"""Recurring jobs and limits are work; projects, tokens and users are for admins."""


class RolePermissions(BaseBackend):
    """Permissions in Django's admin by role. Logins are left to Django's own backend."""

    def has_perm(self, user_obj: AbstractBaseUser | AnonymousUser, perm: str, obj: Any = None) -> bool:  # noqa: ARG002  # Django's
        role = role_of(user_obj)
        if role is Role.OPERATOR:
            app, _, what = perm.partition(".")
            verb, _, noun = what.partition("_")
            return app == _QUEUE and (verb == "view" or noun in _OPERATORS_EDIT)
        return role is Role.ADMIN

    def has_module_perms(self, user_obj: AbstractBaseUser | AnonymousUser, app_label: str) -> bool:
        role = role_of(user_obj)
        return role is Role.ADMIN or (role is Role.OPERATOR and app_label == _QUEUE)

"""What a role may do in Django's admin, asked as permissions. Derived: there are no rows to keep true."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from dalston_queue.accounts.roles import Role, role_of

_QUEUE = "dalston_queue"
_OPERATORS_EDIT = "schedule"
"""Recurring jobs are work; projects, tokens and users say who may do work."""


class RolePermissions(BaseBackend):
    """Lets nobody in: Django's own backend knows the passwords."""

    def has_perm(self, user_obj: AbstractBaseUser | AnonymousUser, perm: str, obj: Any = None) -> bool:  # noqa: ARG002  # Django's
        role = role_of(user_obj)
        if role is Role.OPERATOR:
            app, _, what = perm.partition(".")
            verb, _, noun = what.partition("_")
            return app == _QUEUE and (verb == "view" or noun == _OPERATORS_EDIT)
        return role is Role.ADMIN

    def has_module_perms(self, user_obj: AbstractBaseUser | AnonymousUser, app_label: str) -> bool:
        role = role_of(user_obj)
        return role is Role.ADMIN or (role is Role.OPERATOR and app_label == _QUEUE)

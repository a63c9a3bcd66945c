"""The principal of a request: a token of one project, or a logged-in person. Routes use it, never the request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from dalston_queue.accounts.roles import may_operate
from dalston_queue.models import ApiToken, Project
from dalston_queue.models.accounts import Scope

M = TypeVar("M", bound=Model)

SESSION_PROJECT = "default"
"""A person belongs to no project: submissions from the docs page go here."""


@dataclass(frozen=True, slots=True)
class Principal:
    scopes: frozenset[str]
    token: ApiToken | None = None
    user: AbstractBaseUser | None = None

    @classmethod
    def of_token(cls, token: ApiToken) -> Principal:
        return cls(scopes=frozenset(token.scopes), token=token)

    @classmethod
    def of_user(cls, user: AbstractBaseUser) -> Principal:
        """Each login reads all projects, as on the dashboard; operators and admins may also write."""
        scopes = {Scope.READ, Scope.SUBMIT, Scope.OPERATE} if may_operate(user) else {Scope.READ}
        return cls(scopes=frozenset(scopes), user=user)

    @property
    def name(self) -> str:
        return f"token {self.token.name}" if self.token else f"user {self.user}"

    @property
    def holder(self) -> str:
        """Whose share of bounded slots this is: the token's project, or the person."""
        return f"project {self.token.project_id}" if self.token else f"user {getattr(self.user, 'pk', '')}"

    @property
    def sees_everything(self) -> bool:
        return self.user is not None or Scope.OPERATE in self.scopes

    @property
    def only_project(self) -> UUID | None:
        """The only project that this principal sees; None: all."""
        return None if self.token is None or self.sees_everything else self.token.project_id

    def signature(self) -> dict[str, Any]:
        """Actor, user and token, for the audit trail."""
        return {"actor": self.name, "user": self.user, "token": self.token}

    def project(self) -> Project:
        """Where this principal's submissions belong."""
        if self.token:
            return self.token.project
        return Project.objects.get_or_create(name=SESSION_PROJECT)[0]

    def visible(self, rows: QuerySet[M], project_field: str) -> QuerySet[M]:
        """Only rows of the principal's project, unless it is an operator or a logged-in person."""
        return rows if self.only_project is None else rows.filter(**{project_field: self.only_project})


def principal_of(request: HttpRequest) -> Principal:
    auth: Any = getattr(request, "auth", None)
    if not isinstance(auth, Principal):
        raise TypeError("A route ran without authentication.")
    return auth

"""Issues and revokes API tokens with an audit entry, for the shell, the pages and the admin; and who may do which."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from dalston_queue.accounts.roles import Role, may_administer, role_of
from dalston_queue.audit.record import audited
from dalston_queue.models import ApiToken, Project
from dalston_queue.models.accounts import Scope

NO_PRESET = "none"


def preset(name: str) -> str:
    """As it is stored: no preset is an empty text."""
    return "" if name == NO_PRESET else name


_GRANTED = {
    Role.VIEWER: (Scope.READ,),
    Role.OPERATOR: (Scope.SUBMIT, Scope.READ, Scope.OPERATE),
    Role.ADMIN: tuple(Scope),
}


def grantable(user: AbstractBaseUser | AnonymousUser) -> tuple[Scope, ...]:
    """The scopes that this person may give to a token: none that reaches further than their own role."""
    return _GRANTED[role_of(user)]


def manageable(user: AbstractBaseUser | AnonymousUser) -> QuerySet[ApiToken]:
    """The tokens that this person sees and may revoke: those they made; an admin's are all."""
    return ApiToken.objects.all() if may_administer(user) else ApiToken.objects.filter(created_by=user.pk)


def issue(
    project: Project,
    name: str,
    scopes: Iterable[str],
    *,
    actor: str,
    user: AbstractBaseUser | None = None,
    expires_at: datetime | None = None,
    rate_preset: str = "",
) -> tuple[ApiToken, str]:
    """A new token's row and text. Token and audit entry are one transaction: no token works without its entry."""
    with transaction.atomic():
        token, text = ApiToken.issue(project, name, scopes, expires_at, rate_preset, user)
        with audited("token.issue", str(token.pk), actor=actor, user=user) as row:
            row.after = {
                "project": project.name,
                "name": name,
                "scopes": token.scopes,
                "rate_preset": rate_preset,
                "expires_at": expires_at.isoformat() if expires_at else None,
            }
    return token, text


def revoke(tokens: QuerySet[ApiToken], *, actor: str, user: AbstractBaseUser | None = None) -> int:
    """Revoke these tokens; returns how many were not revoked before."""
    revoked = 0
    for token in tokens.filter(revoked_at__isnull=True):
        with audited("token.revoke", str(token.pk), actor=actor, user=user, before={"name": token.name}) as row:
            # Another process may have been faster.
            ours = ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=timezone.now()) == 1
            row.after = {"revoked": ours}
        revoked += ours
    return revoked

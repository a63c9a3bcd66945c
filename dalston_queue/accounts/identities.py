"""People of the sign-in provider: their accounts, and the roles that their groups give them.

The provider knows a person by a subject, which never changes; `Identity` ties it to an account. Names do change, and at
some providers people choose them, so a name alone opens no account that exists: only DALSTON_OIDC_LINK_BY_NAME allows
that. A role is read anew at each sign-in. Who has none any more loses their open sessions: the account is suspended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction

from dalston_queue.accounts.roles import Role
from dalston_queue.audit.record import audited
from dalston_queue.models import Identity

SUPERUSER = "superuser"
ROLES = (*(role.value for role in Role), SUPERUSER)
"""That DALSTON_OIDC_ROLES may give, the highest last."""
MAX_GROUPS = 5_000


class Refusal(StrEnum):
    """Why a person whom the provider knows does not get in."""

    NO_ROLE = "no_role"
    NAME_MISSING = "name_missing"
    NAME_INVALID = "name_invalid"
    NAME_TAKEN = "name_taken"
    DEACTIVATED = "deactivated"


class Refused(Exception):
    def __init__(self, refusal: Refusal, name: str = "", groups: tuple[str, ...] = ()) -> None:
        super().__init__(refusal.value)
        self.refusal, self.name, self.groups = refusal, name, groups


@dataclass(frozen=True, slots=True)
class Claimed:
    """What the provider says about a person."""

    issuer: str
    subject: str
    name: str
    groups: tuple[str, ...]

    @property
    def role(self) -> str | None:
        """The highest role of the groups; None: no group has one. Pure."""
        given = {settings.DALSTON_OIDC_ROLES.get(group) for group in self.groups}
        return next((role for role in reversed(ROLES) if role in given), None)


def read(claims: Mapping[str, Any]) -> Claimed:
    """From claims that were verified. The subject is a text, or the token would not have been valid."""
    name = find(claims, settings.DALSTON_OIDC_NAME_CLAIM)
    found = find(claims, settings.DALSTON_OIDC_ROLES_CLAIM)
    groups: Iterable[Any] = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    return Claimed(
        issuer=str(claims["iss"]),
        subject=str(claims["sub"]),
        name=name.strip() if isinstance(name, str) else "",
        groups=tuple(group for group in groups if isinstance(group, str))[:MAX_GROUPS],
    )


def find(claims: Mapping[str, Any], path: str) -> Any:
    """`realm_access.roles`: a claim of that name, or one inside another. Names of claims may be URLs, with dots."""
    if path in claims:
        return claims[path]
    here: Any = claims
    for part in path.split("."):
        here = here.get(part) if isinstance(here, Mapping) else None
    return here


def admit(person: Claimed) -> User:
    """The account of this person, made or brought up to date; or `Refused`."""
    role = person.role
    try:
        with transaction.atomic():
            _lock(person)
            identity = Identity.objects.select_related("user").filter(issuer=person.issuer, subject=person.subject)
            known = identity.first()
            if known is None:
                return _first_sign_in(person, role)
            if known.user.is_active or known.is_suspended:
                _bring_up_to_date(known, role)
    except IntegrityError:  # the name was taken in that very moment
        raise Refused(Refusal.NAME_TAKEN, person.name) from None
    if role is None:
        raise Refused(Refusal.NO_ROLE, known.user.get_username(), person.groups)
    if not known.user.is_active:
        raise Refused(Refusal.DEACTIVATED, known.user.get_username())
    return known.user


def _lock(person: Claimed) -> None:
    """Two first sign-ins of one person wait for each other."""
    with connection.cursor() as cursor:
        key = f"identity {person.issuer} {person.subject}"
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [key])


def _first_sign_in(person: Claimed, role: str | None) -> User:
    if role is None:
        raise Refused(Refusal.NO_ROLE, person.name, person.groups)
    if not person.name:
        raise Refused(Refusal.NAME_MISSING)
    name = User.normalize_username(person.name)
    user = User(username=name)
    user.set_unusable_password()
    try:
        user.clean_fields()
    except ValidationError:
        raise Refused(Refusal.NAME_INVALID) from None
    # Another spelling would be another account that looks the same.
    taken = User.objects.select_for_update().filter(username__iexact=name).first()
    if taken is not None:
        return _link(person, taken, role)
    with audited("user.create", name, actor=_actor(person.issuer)) as row:
        user.save()
        Identity.objects.create(user=user, issuer=person.issuer, subject=person.subject)
        _give(user, role)
        row.after = {**_state(user), "subject": person.subject}
    return user


def _link(person: Claimed, user: User, role: str) -> User:
    """The local account of this name becomes this person's, where the provider's names are trusted."""
    linked = Identity.objects.filter(user=user).first()
    allowed = settings.DALSTON_OIDC_LINK_BY_NAME and (linked is None or linked.issuer != person.issuer)
    if not allowed or (user.is_superuser and role != SUPERUSER):
        raise Refused(Refusal.NAME_TAKEN, user.get_username())
    if not user.is_active:
        raise Refused(Refusal.DEACTIVATED, user.get_username())
    with audited("user.link", user.get_username(), actor=_actor(person.issuer), before=_state(user)) as row:
        Identity.objects.update_or_create(
            user=user, defaults={"issuer": person.issuer, "subject": person.subject, "is_suspended": False}
        )
        _give(user, role)
        row.after = {**_state(user), "subject": person.subject}
    return user


def _bring_up_to_date(identity: Identity, role: str | None) -> None:
    user = identity.user
    before = _state(user)
    wanted = {"is_active": role is not None, "groups": _groups_of(role), "is_superuser": role == SUPERUSER}
    if before == wanted:
        return
    with audited("user.change", user.get_username(), actor=_actor(identity.issuer), before=before) as row:
        identity.is_suspended = role is None
        identity.save(update_fields=["is_suspended"])
        user.is_active = role is not None
        _give(user, role)
        row.after = _state(user)


def _give(user: User, role: str | None) -> None:
    """This role and no other."""
    user.is_superuser = role == SUPERUSER
    user.save(update_fields=["is_active", "is_superuser"])
    user.groups.set(Group.objects.filter(name__in=_groups_of(role)))


def _groups_of(role: str | None) -> list[str]:
    return [role] if role in set(Role) else []


def _state(user: User) -> dict[str, Any]:
    groups = sorted(user.groups.values_list("name", flat=True))
    return {"is_active": user.is_active, "groups": groups, "is_superuser": user.is_superuser}


def _actor(issuer: str) -> str:
    return f"provider {issuer}"

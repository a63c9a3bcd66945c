"""Projects, their API tokens, failed logins, and who signs in by a provider.

A token's text is shown once, when it is issued; only its SHA-256 digest is stored.
"""

import secrets
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Self

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from dalston_queue.ids import uuid7

MAX_WEIGHT = 1000


class Project(models.Model):
    """Owns jobs, and the tokens that may submit and see them."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.SlugField(max_length=80, unique=True)
    weight = models.PositiveSmallIntegerField(
        default=1,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_WEIGHT)],
        help_text="its share of the slots while several projects wait: 3 gets three times as many as 1",
    )
    stored_bytes = models.BigIntegerField(
        default=0, db_default=0, editable=False, help_text="of its files in the artifact store, as last counted"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "dalston_project"
        constraints = [
            models.CheckConstraint(condition=models.Q(weight__range=(1, MAX_WEIGHT)), name="project_weight_in_range")
        ]

    def __str__(self) -> str:
        return self.name


PREFIX = "dal_"


class Scope(StrEnum):
    SUBMIT = "submit"
    READ = "read"
    OPERATE = "operate"
    WORKER = "worker"


class RatePreset(StrEnum):
    """The rate limit of a token; without one it has no limit."""

    LIMITED = "limited"
    LISTED = "listed"

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    RatePreset.LIMITED: "a number of calls a minute and an hour",
    RatePreset.LISTED: "served longer when a queue is full",
}


def digest_of(text: str) -> str:
    """The stored digest of a token's text. The text has 256 random bits, so it needs no salt and no slow hash."""
    return sha256(text.encode()).hexdigest()


class ApiToken(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=120)
    # Every request: SELECT ... WHERE digest = %s (the unique index).
    digest = models.CharField(max_length=64, unique=True, editable=False)
    scopes = ArrayField(models.CharField(max_length=20, choices=[(scope.value, scope.value) for scope in Scope]))
    rate_preset = models.CharField(
        max_length=20,
        blank=True,
        default="",
        choices=[(preset.value, f"{preset}: {preset.meaning}") for preset in RatePreset],
        help_text="empty: no limit",
    )
    # Who made it on the pages; empty: in a shell, or the user is deleted.
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, editable=False, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "dalston_api_token"

    def __str__(self) -> str:
        return f"{self.name} ({self.project})"

    @classmethod
    def issue(
        cls,
        project: Project,
        name: str,
        scopes: Iterable[str],
        expires_at: datetime | None = None,
        rate_preset: str = "",
        created_by: AbstractBaseUser | None = None,
    ) -> tuple[Self, str]:
        """Make a token; returns its row and its text, which is not stored."""
        text = PREFIX + secrets.token_urlsafe(32)
        token = cls.objects.create(
            project=project,
            name=name,
            digest=digest_of(text),
            scopes=[Scope(scope).value for scope in scopes],
            expires_at=expires_at,
            rate_preset=rate_preset,
            created_by_id=created_by.pk if created_by else None,
        )
        return token, text

    def is_valid(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class LoginAttempt(models.Model):
    """A failed login, counted by the throttle. Kept for a day."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    # A digest: people type passwords into the wrong field.
    account = models.CharField(max_length=64)
    address = models.CharField(max_length=64)

    class Meta:
        db_table = "dalston_login_attempt"
        indexes = [
            # The throttle: WHERE account = %s AND at > %s, WHERE address = %s AND at > %s
            models.Index(fields=["account", "at"], name="login_by_account"),
            models.Index(fields=["address", "at"], name="login_by_address"),
        ]

    def __str__(self) -> str:
        return f"{self.address} {self.at:%H:%M:%S}"


class Identity(models.Model):
    """A person at the sign-in provider, and their account here. The subject is for life, names are not."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="+")
    # Each sign-in: WHERE issuer = %s AND subject = %s (the unique constraint).
    issuer = models.CharField(max_length=500)
    subject = models.CharField(max_length=255)
    # The account is inactive because its person had no role at their last sign-in, and not by an admin's hand.
    is_suspended = models.BooleanField(default=False)

    class Meta:
        db_table = "dalston_identity"
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="identity_is_one_account")]

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"

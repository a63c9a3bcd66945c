"""Choices and check constraints made of enums, so that the database refuses a value the code doesn't know."""

from collections.abc import Iterable
from enum import StrEnum

from django.db import models


def choices(kind: type[StrEnum]) -> list[tuple[str, str]]:
    return [(member.value, member.value) for member in kind]


def one_of(field: str, values: Iterable[str], name: str) -> models.CheckConstraint:
    return models.CheckConstraint(condition=models.Q(**{f"{field}__in": sorted(values)}), name=name)


def over_has_time(over: Iterable[str], name: str, field: str = "status") -> models.CheckConstraint:
    """A row is over exactly when it has a `finished_at`."""
    is_over = models.Q(**{f"{field}__in": sorted(over)})
    timed = models.Q(finished_at__isnull=False)
    return models.CheckConstraint(condition=(is_over & timed) | (~is_over & ~timed), name=name)

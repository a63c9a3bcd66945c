"""Writes down what an operator does: who, what, to what, why, how it was before and after.

The row is written before the act and completed after it, so that an act whose process dies in the middle is on record.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.utils import timezone

from dalston_queue.models import ApiToken, OperatorAction


@contextmanager
def audited(
    action: str,
    target: str,
    *,
    actor: str,
    user: AbstractBaseUser | None = None,
    token: ApiToken | None = None,
    reason: str = "",
    before: Any = None,
) -> Iterator[OperatorAction]:
    """Set `after` on the row inside the block."""
    row = OperatorAction.objects.create(
        at=timezone.now(),
        user_id=user.pk if user else None,
        token=token,
        actor=actor[:200],
        action=action,
        target=target[:200],
        reason=reason,
        before=before,
    )
    yield row
    row.save(update_fields=["after"])

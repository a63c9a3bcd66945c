"""Records an operator's action: actor, action, target, reason, and the state before and after.

The row is written before the action and finished after it, so that an action whose process dies in the middle is on
record as unfinished. Each of the two is a link of the hash chain, which a trigger adds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import DatabaseError
from django.utils import timezone

from dalston_queue.database import storable_text
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
    """Set `after` on the row inside the block. An action that raises is finished too, with its error."""
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
    try:
        yield row
    except Exception as error:
        row.after = {"failed": storable_text(f"{type(error).__name__}: {error}"[:500])}
        with suppress(DatabaseError):  # if the database failed, the row stays unfinished
            _finish(row)
        raise
    _finish(row)


def _finish(row: OperatorAction) -> None:
    row.finished_at = timezone.now()
    row.save(update_fields=["after", "finished_at"])

"""What the page of tokens reads: the newest tokens that this person may see. Their texts are stored nowhere."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import F

from dalston_queue.accounts.tokens import manageable
from dalston_queue.models import ApiToken

SHOWN = 200


@dataclass(frozen=True, slots=True)
class TokenLine:
    token: ApiToken
    state: str  # in words
    tone: str  # of its chip

    @property
    def is_valid(self) -> bool:
        return self.tone == "ok"


def lines(user: AbstractBaseUser | AnonymousUser, now: datetime) -> tuple[list[TokenLine], int]:
    """The newest ones, those that were not revoked first; and how many more there are."""
    rows = manageable(user).select_related("project", "created_by")
    found = list(rows.order_by(F("revoked_at").desc(nulls_first=True), "-id")[: SHOWN + 1])
    more = rows.count() - SHOWN if len(found) > SHOWN else 0
    return [_line(token, now) for token in found[:SHOWN]], more


def _line(token: ApiToken, now: datetime) -> TokenLine:
    if token.revoked_at is not None:
        return TokenLine(token, "revoked", "quiet")
    if not token.is_valid(now):
        return TokenLine(token, "expired", "wait")
    return TokenLine(token, "valid", "ok")

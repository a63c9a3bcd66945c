"""Tokens that this process has read lately, each with the version of its row.

A route that asks Postgres for one thing anyway can take its token from here, and name the version in that statement:
it then does nothing if the row is another by now. So a request needs one round trip less, and a token that is revoked
or changed is still refused with the next request. What such a route owes:

- its statement names the version, and if that did nothing it goes on with `confirmed` (api/auth/principal.py);
- every error is answered only after `confirmed`: handlers.py does that for all.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from dalston_queue.models import ApiToken
from dalston_queue.models.api_token import RatePreset

LAST_USED_EVERY = timedelta(minutes=1)
"""How exactly the time of last use is kept. It is also how long a token is known: then it is read, to be written."""
MOST = 1000


class Known(NamedTuple):
    token: ApiToken
    version: str


class KnownTokens:
    def __init__(self) -> None:
        self._known: dict[str, Known] = {}

    def get(self, digest: str, now: datetime) -> Known | None:
        known = self._known.get(digest)
        return known if known is not None and is_fresh(known.token, now) and known.token.is_valid(now) else None

    def keep(self, digest: str, known: Known) -> None:
        if len(self._known) >= MOST:
            self._known.clear()
        # One whose calls are counted is read for each: a second try would count twice.
        if known.token.rate_preset != RatePreset.LIMITED:
            self._known[digest] = known


def is_fresh(token: ApiToken, now: datetime) -> bool:
    return token.last_used_at is not None and token.last_used_at > now - LAST_USED_EVERY


known_tokens = KnownTokens()

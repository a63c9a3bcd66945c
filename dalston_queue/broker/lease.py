"""Leadership of a role: a key with a token and a term, renewed and released by compare.

Failure cases. The holder stalls: its lease runs out, another one takes it, and the old one's renew and release name a
token that is no longer there, so they change nothing; it learns so from their answer. The holder loses Redis: it trusts
the lease only until start of the call + TTL - margin by its own monotonic clock. Redis fails over and forgets the
lease: two leaders for a moment, harmless, because each act guards itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dalston_queue.broker.types import Role

if TYPE_CHECKING:
    from dalston_queue.broker.broker import Broker


class Leader(msgspec.Struct, frozen=True):
    token: str
    term: int
    expires_in_ms: int


class Lease:
    """One per role and process. The token must be unique to the process."""

    def __init__(self, broker: Broker, role: Role, token: str, ttl_s: float = 30.0, margin_s: float = 2.0) -> None:
        raise NotImplementedError

    @property
    def held(self) -> bool:
        """True while the lease can be trusted, by this process's monotonic clock."""
        raise NotImplementedError

    def acquire(self, term: int = 0) -> bool:
        """Take it if it is free, or renew it if it is ours. The term comes from Postgres."""
        raise NotImplementedError

    def renew(self) -> bool:
        """False: it is no longer ours."""
        raise NotImplementedError

    def release(self) -> bool:
        raise NotImplementedError

    def leader(self) -> Leader | None:
        """Who leads now."""
        raise NotImplementedError

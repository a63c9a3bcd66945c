"""Leadership of a role: a key with a token and a term, renewed and released by compare-and-set.

Failure cases. The holder stalls: its lease expires, another process acquires it, and the old holder's renew and release
name a token that is no longer there, so they change nothing and return False. The holder loses Redis: it trusts the
lease only until start of the call + TTL - margin by its own monotonic clock. Redis fails over and forgets the lease:
there are two leaders for a moment, which is harmless, because each action guards itself.
"""

from __future__ import annotations

import time

import msgspec

from dalston_queue.broker.connection.shard import Shard
from dalston_queue.broker.protocol.types import Role
from dalston_queue.broker.protocol.validate import number, text


class Leader(msgspec.Struct, frozen=True):
    token: str
    term: int


class Lease:
    """One per role and process. The token must be unique to the process."""

    def __init__(self, shard: Shard, role: Role, token: str, ttl_s: float = 30.0) -> None:
        self._shard = shard
        self._key = shard.keys.leader(role)
        self._token = token
        self._ttl_s = ttl_s
        self._margin_s = min(2.0, ttl_s / 4)
        self._trusted_until = 0.0
        self.role = role
        self.term = 0

    @property
    def held(self) -> bool:
        """True while the lease can be trusted, by this process's monotonic clock."""
        return time.monotonic() < self._trusted_until

    def acquire(self, term: int = 0) -> bool:
        """Acquire it if it is free, renew it if it is ours. The term comes from Postgres."""
        self.term = term
        return self._run("lease_acquire", term, int(self._ttl_s * 1000))

    def renew(self) -> bool:
        """False: it is no longer ours."""
        return self._run("lease_renew", self.term, int(self._ttl_s * 1000))

    def release(self) -> bool:
        self._trusted_until = 0.0
        return bool(self._shard.run("lease_release", [self._key], [self._token, self.term]))

    def leader(self) -> Leader | None:
        """The process that leads now."""
        token, term = self._shard.command("HMGET", self._key, "token", "term")
        return None if token is None else Leader(text(token), number(term or b"") or 0)

    def _run(self, name: str, term: int, ttl_ms: int) -> bool:
        # the TTL starts on the server after this moment, so trusting it from here errs on the safe side
        start = time.monotonic()
        ours = bool(self._shard.run(name, [self._key], [self._token, term, ttl_ms]))
        self._trusted_until = start + self._ttl_s - self._margin_s if ours else 0.0
        return ours

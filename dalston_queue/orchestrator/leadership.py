"""Leadership of a role by a lease: acquired when it is free, renewed in time, released on a clean stop.

Redis holds the lease; Postgres numbers each new leader with a higher term, and keeps its name. A leader that loses
Redis trusts its lease only until it expires by the leader's own clock. Two leaders for a moment (a failover that lost
the lease) are harmless: each action of a leader is guarded by itself.
"""

import os
import socket
from datetime import datetime

import structlog
from django.conf import settings
from django.db import connection
from django.utils import timezone

from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.protocol.types import Role
from dalston_queue.health import outages
from dalston_queue.ids import uuid7
from dalston_queue.redis import get_broker

log = structlog.get_logger(__name__)

_NEXT_TERM = """
    INSERT INTO dalston_leadership AS l (role, term, holder, since) VALUES (%s, 1, %s, %s)
    ON CONFLICT (role) DO UPDATE SET term = l.term + 1, holder = excluded.holder, since = excluded.since
    RETURNING term"""


def process_name() -> str:
    """A unique name: no other process has it, and no other call in this process returns it."""
    return f"{socket.gethostname()}.{os.getpid()}.{uuid7().hex[-8:]}"


class Leadership:
    """One per role and process. `token` names the process. With `brief` the lease is held for a moment each minute,
    which is worth no line in the log."""

    def __init__(self, role: Role, token: str, *, brief: bool = False) -> None:
        self.role = role
        self._report = log.debug if brief else log.info
        self._lease = get_broker().lease(role, token, settings.DALSTON_LEADER_TTL_S)
        self.token = token

    @property
    def held(self) -> bool:
        """True while this process may act as the leader."""
        return self._lease.held

    def keep(self) -> bool:
        """Renew the lease, or acquire it if it is free; call this a few times per TTL. True: this process leads."""
        if self._lease.held:
            if self._lease.renew():
                return True
            log.warning("lost the lease", role=self.role, term=self._lease.term)
        # Read first: otherwise the term would grow with every poll of every standby.
        if self._lease.leader() is not None:
            return False
        term = self._next_term(timezone.now())
        if not self._lease.acquire(term):
            return False
        self._report("leads", role=self.role, term=term, token=self.token)
        return True

    def renew(self) -> bool:
        """Only renew, from a second thread while the first one works. Never uses Postgres."""
        try:
            return self._lease.renew()
        except BrokerError as error:
            if not outages.report(error):
                log.warning("the lease could not be renewed", role=self.role, error=str(error))
            return False

    def resign(self) -> None:
        """Release the lease, so that another process leads at once."""
        self._lease.release()

    def _next_term(self, now: datetime) -> int:
        with connection.cursor() as cursor:
            cursor.execute(_NEXT_TERM, [self.role, self.token, now])
            return int(cursor.fetchone()[0])

"""Notices within a second that Redis has lost its data, and puts back what should be there.

Each shard holds a marker without an expiry. Where the marker is absent the data is gone: FLUSHALL, a replacement
without a disk, a failover that lost everything; or the system starts for the first time. What waits is in Postgres, so
only the windows and the running tasks are put back, as new attempts. The marker is set after that: a crash in between
repeats it.
"""

import structlog
from django.db import connection

from dalston_queue.broker.errors import Denied
from dalston_queue.orchestrator.duties.reconciler import restore_lost_data
from dalston_queue.redis import get_broker

log = structlog.get_logger(__name__)

# Of the session, not of a transaction: the reconciler has many.
_LOCK = "SELECT pg_try_advisory_lock(hashtext('dalston_data_loss'))"
_UNLOCK = "SELECT pg_advisory_unlock(hashtext('dalston_data_loss'))"


def restore_if_lost() -> bool:
    """True if this process has put back lost data. One process at a time; the others go on with their work."""
    broker = get_broker()
    if not broker.data_lost():
        return False
    with connection.cursor() as cursor:
        cursor.execute(_LOCK)
        if not cursor.fetchone()[0]:
            return False
    try:
        report = restore_lost_data()
        broker.mark()
    except Denied as error:  # full: what runs must go on, or nothing would ever drain it; the next poll tries again
        log.warning("redis is full, and its data can't be marked as whole", error=str(error))
        return False
    finally:
        with connection.cursor() as cursor:
            cursor.execute(_UNLOCK)
    if report.repaired:
        log.warning("redis had lost its data, and has it again", repaired=report.repaired, found=dict(report.found))
    return True

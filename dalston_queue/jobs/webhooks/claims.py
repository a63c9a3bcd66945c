"""Claims the next webhook that is due, of a receiver that is not busy.

What is due longest comes first. A busy receiver may have a backlog of any length at the head of that line, and is not
walked: if all of the first are of busy receivers, the receivers are gone through instead, each for its first.
"""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection

from dalston_queue.models import WebhookDelivery

PER_ORIGIN = 2
FIRST = 100
LEASE_SLACK_S = 30.0

# Each second, and after each delivery. `receivers` steps from one to the next by a probe of the index by origin. Pairs
# are compared because `origin =` would let the planner choose the index by time, and read the whole backlog after all.
CLAIM = """
    WITH RECURSIVE busy AS MATERIALIZED (
        SELECT origin FROM dalston_webhook_delivery
        WHERE state = 'pending' AND sending_until > %(now)s GROUP BY origin HAVING count(*) >= %(most)s
    ), first AS MATERIALIZED (
        SELECT id, origin FROM dalston_webhook_delivery
        WHERE state = 'pending' AND next_at <= %(now)s ORDER BY next_at LIMIT %(first)s
    ), free AS MATERIALIZED (
        SELECT id FROM first WHERE origin NOT IN (SELECT origin FROM busy) LIMIT 20
    ), receivers AS (
        SELECT min(origin) AS origin FROM dalston_webhook_delivery
        WHERE state = 'pending' AND CASE WHEN EXISTS (SELECT 1 FROM free) THEN false
            ELSE (SELECT count(*) FROM first) = %(first)s END
        UNION ALL
        SELECT (
            SELECT min(origin) FROM dalston_webhook_delivery WHERE state = 'pending' AND origin > receivers.origin
        ) FROM receivers WHERE origin IS NOT NULL
    ), found AS (
        SELECT id FROM free
        UNION ALL
        SELECT due.id FROM receivers CROSS JOIN LATERAL (
            SELECT id FROM dalston_webhook_delivery
            WHERE state = 'pending' AND (origin, next_at) >= (receivers.origin, '-infinity')
                AND (origin, next_at) <= (receivers.origin, %(now)s)
            ORDER BY origin, next_at LIMIT %(most)s
        ) AS due WHERE receivers.origin IS NOT NULL AND receivers.origin NOT IN (SELECT origin FROM busy)
    )
    UPDATE dalston_webhook_delivery d
    SET attempts = d.attempts + 1, next_at = %(until)s, sending_until = %(until)s
    WHERE d.id = (
        SELECT id FROM dalston_webhook_delivery
        WHERE id = ANY (ARRAY(SELECT id FROM found)) AND state = 'pending' AND next_at <= %(now)s
        ORDER BY next_at LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    RETURNING d.id"""


def claim(now: datetime) -> WebhookDelivery | None:
    """One that is due, with its job, project and secret; counted as an attempt."""
    until = now + timedelta(seconds=settings.DALSTON_WEBHOOK_TIMEOUT_S + LEASE_SLACK_S)
    with connection.cursor() as cursor:
        cursor.execute(CLAIM, {"now": now, "until": until, "most": PER_ORIGIN, "first": FIRST})
        row = cursor.fetchone()
    if row is None:
        return None
    # None as well if its job was deleted in this moment.
    return WebhookDelivery.objects.select_related("job__project__webhook_secret").filter(pk=row[0]).first()

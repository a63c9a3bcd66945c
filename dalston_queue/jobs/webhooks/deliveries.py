"""Webhook deliveries in Postgres: checks callback URLs, claims the next delivery, decides about retries."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from ipaddress import ip_network
from uuid import UUID

from django.conf import settings
from django.db import connection

from dalston_queue.addresses import Network
from dalston_queue.jobs.errors import InvalidCallback
from dalston_queue.jobs.webhooks.target import read_target
from dalston_queue.models import Project, WebhookDelivery, WebhookSecret
from dalston_queue.models.webhook import DeliveryState


def allowed_networks() -> Sequence[Network]:
    return [ip_network(text) for text in settings.DALSTON_WEBHOOK_ALLOWED_NETWORKS]


class Callbacks:
    """Checks the callback URLs of a project's submissions."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def checked(self, url: str) -> str:
        """The URL as it is stored. Raises InvalidCallback."""
        target = read_target(url, allowed_networks())
        if not self._has_secret:
            raise InvalidCallback(
                f"project {self._project.name} has no secret to sign webhooks with; "
                f"`manage.py webhook secret --project {self._project.name}` makes one"
            )
        return target.url

    @cached_property
    def _has_secret(self) -> bool:
        return WebhookSecret.objects.filter(project=self._project).exists()


def retry_at(attempts: int, now: datetime, jitter: float) -> datetime | None:
    """When to retry after so many failed attempts; None: give up. `jitter` from 0 to 1 spreads deliveries that failed
    together over half of the delay."""
    if attempts >= settings.DALSTON_WEBHOOK_ATTEMPTS:
        return None
    base, cap = settings.DALSTON_WEBHOOK_BACKOFF_BASE_S, settings.DALSTON_WEBHOOK_BACKOFF_CAP_S
    delay = min(cap, base * 2 ** min(attempts - 1, 30))
    return now + timedelta(seconds=delay * (0.5 + jitter / 2))


def send_again(delivery: WebhookDelivery, now: datetime) -> bool:
    """Make a delivery due at once, with a fresh budget of attempts. False: it is being sent right now."""
    rows = WebhookDelivery.objects.filter(pk=delivery.pk).exclude(sending_until__gt=now)
    # The lease is cleared: a sender that outlived its own must not mark this delivery.
    fresh = {"attempts": 0, "next_at": now, "delivered_at": None, "sending_until": None}
    return rows.update(state=DeliveryState.PENDING, **fresh) == 1


MAX_PER_ORIGIN = 2
FIRST_LIMIT = 100
LEASE_SLACK_S = 30.0

# Each second, and after each delivery. `projects` and `receivers` step from one to the next by a probe of an index.
# Rows are compared because `origin =` would let the planner choose the index by time, and read the whole backlog.
CLAIM = """
    WITH RECURSIVE busy AS MATERIALIZED (
        SELECT origin FROM dalston_webhook_delivery
        WHERE state = 'pending' AND sending_until > %(now)s GROUP BY origin HAVING count(*) >= %(per_origin)s
    ), projects AS (
        (SELECT project_id FROM dalston_webhook_delivery WHERE state = 'pending' ORDER BY project_id LIMIT 1)
        UNION ALL
        SELECT (
            SELECT project_id FROM dalston_webhook_delivery
            WHERE state = 'pending' AND project_id > projects.project_id ORDER BY project_id LIMIT 1
        ) FROM projects WHERE project_id IS NOT NULL
    ), first AS MATERIALIZED (
        SELECT projects.project_id, due.* FROM projects CROSS JOIN LATERAL (
            SELECT id, origin, next_at FROM dalston_webhook_delivery
            WHERE state = 'pending' AND (project_id, next_at) >= (projects.project_id, '-infinity')
                AND (project_id, next_at) <= (projects.project_id, %(now)s)
            ORDER BY project_id, next_at LIMIT %(first)s
        ) AS due WHERE projects.project_id IS NOT NULL AND projects.project_id <> ALL(%(full)s::uuid[])
    ), free AS MATERIALIZED (
        SELECT id, project_id FROM first WHERE origin NOT IN (SELECT origin FROM busy) ORDER BY next_at LIMIT 20
    ), crowded AS (
        SELECT project_id FROM first GROUP BY project_id
        HAVING count(*) = %(first)s AND bool_and(origin IN (SELECT origin FROM busy))
    ), receivers AS (
        SELECT project_id, (
            SELECT origin FROM dalston_webhook_delivery d WHERE state = 'pending' AND d.project_id = crowded.project_id
            ORDER BY origin LIMIT 1
        ) AS origin FROM crowded
        UNION ALL
        SELECT project_id, (
            SELECT origin FROM dalston_webhook_delivery d
            WHERE state = 'pending' AND d.project_id = receivers.project_id AND d.origin > receivers.origin
            ORDER BY origin LIMIT 1
        ) FROM receivers WHERE origin IS NOT NULL
    ), found AS (
        SELECT id FROM free
        UNION ALL
        SELECT due.id FROM receivers CROSS JOIN LATERAL (
            SELECT id FROM dalston_webhook_delivery
            WHERE state = 'pending'
                AND (project_id, origin, next_at) >= (receivers.project_id, receivers.origin, '-infinity')
                AND (project_id, origin, next_at) <= (receivers.project_id, receivers.origin, %(now)s)
            ORDER BY project_id, origin, next_at LIMIT %(per_origin)s
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


def claim(now: datetime, full: Collection[UUID] = ()) -> WebhookDelivery | None:
    """Claim a due delivery of a receiver that is not busy, with its job, project and secret; counted as an attempt.
    `full`: projects that have their share of the sender.

    The one that is due longest comes first. The backlog of a busy receiver may be long, and is not read: if the first
    FIRST_LIMIT deliveries of a project are all of busy receivers, the statement goes from receiver to receiver.
    """
    until = now + timedelta(seconds=settings.DALSTON_WEBHOOK_TIMEOUT_S + LEASE_SLACK_S)
    with connection.cursor() as cursor:
        limits = {"per_origin": MAX_PER_ORIGIN, "first": FIRST_LIMIT}
        cursor.execute(CLAIM, {"now": now, "until": until, "full": [str(project) for project in full], **limits})
        row = cursor.fetchone()
    if row is None:
        return None
    # None as well if its job was deleted in this moment.
    return WebhookDelivery.objects.select_related("job__project__webhook_secret").filter(pk=row[0]).first()

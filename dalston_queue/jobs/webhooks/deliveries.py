"""Webhooks: who may have one, when a failed one is sent again, and sending one again on request."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from ipaddress import ip_network

from django.conf import settings

from dalston_queue.jobs.errors import InvalidCallback
from dalston_queue.jobs.webhooks.target import Network, read_target
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


@dataclass(frozen=True, slots=True)
class RetryAt:
    at: datetime


@dataclass(frozen=True, slots=True)
class GiveUp:
    pass


def after_failure(attempts: int, now: datetime, jitter: float) -> RetryAt | GiveUp:
    """`attempts` made so far; `jitter` from 0 to 1 spreads those that failed together over half of the delay."""
    if attempts >= settings.DALSTON_WEBHOOK_ATTEMPTS:
        return GiveUp()
    base, cap = settings.DALSTON_WEBHOOK_BACKOFF_BASE_S, settings.DALSTON_WEBHOOK_BACKOFF_CAP_S
    delay = min(cap, base * 2 ** min(attempts - 1, 30))
    return RetryAt(now + timedelta(seconds=delay * (0.5 + jitter / 2)))


def send_again(delivery: WebhookDelivery, now: datetime) -> bool:
    """Due at once, with all attempts before it. False: it is being sent right now."""
    rows = WebhookDelivery.objects.filter(pk=delivery.pk).exclude(sending_until__gt=now)
    # Without a lease: one who took longer than his does not mark this one.
    fresh = {"attempts": 0, "next_at": now, "delivered_at": None, "sending_until": None}
    return rows.update(state=DeliveryState.PENDING, **fresh) == 1

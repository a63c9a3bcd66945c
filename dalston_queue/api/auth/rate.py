"""How often a token may call: its preset says so. None by default; `limited` has the limits of the settings."""

from __future__ import annotations

import math

import structlog
from django.conf import settings

from dalston_queue.api.errors.problems import ApiProblem, Code
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.operations.rate import Limit
from dalston_queue.models import ApiToken
from dalston_queue.models.api_token import RatePreset
from dalston_queue.redis import get_broker

log = structlog.get_logger(__name__)


def check_rate(token: ApiToken) -> None:
    if token.rate_preset != RatePreset.LIMITED:
        return
    limits = [Limit(settings.DALSTON_RATE_LIMITED_PER_MINUTE, 60), Limit(settings.DALSTON_RATE_LIMITED_PER_HOUR, 3600)]
    try:
        wait = get_broker().take_rate(str(token.pk), limits)
    except BrokerError as error:
        # Submissions are accepted while Redis is down; counting them is not worth refusing them.
        log.warning("api.rate_not_counted", error=str(error))
        return
    if wait > 0:
        seconds = math.ceil(wait)
        words = " and ".join(f"{limit.count} in {limit.window_s} s" for limit in limits)
        detail = f"This token may call {words}. Try again in {seconds} s."
        raise ApiProblem(429, Code.RATE_LIMITED, detail, headers={"Retry-After": str(seconds)})

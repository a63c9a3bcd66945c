"""The process-wide Broker, made from the settings on first use. It connects lazily: Redis may be absent."""

from functools import cache

from django.conf import settings

from dalston_queue.broker import Broker, connect


@cache
def get_broker() -> Broker:
    return connect(settings.REDIS_URL, prefix=settings.DALSTON_REDIS_PREFIX, cluster=settings.DALSTON_REDIS_CLUSTER)

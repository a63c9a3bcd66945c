"""The broker of this process, made from the settings."""

from __future__ import annotations

from django.conf import settings

from dalston_queue.broker import Broker, connect


def make_broker() -> Broker:
    return connect(
        settings.REDIS_URL,
        prefix=settings.DALSTON_REDIS_PREFIX,
        cluster=settings.DALSTON_REDIS_CLUSTER,
        shards=settings.DALSTON_REDIS_URLS,
    )

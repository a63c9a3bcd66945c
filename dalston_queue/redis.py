"""The process-wide Broker, made from the settings on first use. It connects lazily: Redis may be absent."""

from functools import lru_cache

from django.conf import settings

from dalston_queue.broker import Broker, connect


def get_broker() -> Broker:
    """The one broker of this process. A test that changes the settings gets one of its own."""
    return _connected(
        settings.REDIS_URL, settings.DALSTON_REDIS_PREFIX, settings.DALSTON_REDIS_CLUSTER, settings.DALSTON_REDIS_URLS
    )


@lru_cache(maxsize=1)
def _connected(url: str, prefix: str, cluster: bool, shards: str) -> Broker:
    return connect(url, prefix=prefix, cluster=cluster, shards=shards)

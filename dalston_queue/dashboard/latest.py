"""The newest overview of this process. Pages and the hub share it, so that ten reloads cost one reading."""

from __future__ import annotations

import threading
import time

import structlog
from django.db import DatabaseError
from django.utils import timezone

from dalston_queue.broker.errors import BrokerError
from dalston_queue.dashboard import from_postgres, from_redis
from dalston_queue.dashboard.overview import InPostgres, InRedis, Overview
from dalston_queue.redis import get_broker

log = structlog.get_logger(__name__)

FRESH_S = 0.5


class Latest:
    def __init__(self, fresh_s: float = FRESH_S) -> None:
        self.fresh_s = fresh_s
        self._lock = threading.Lock()
        self._read_at = 0.0
        self._overview: Overview | None = None

    def get(self) -> Overview:
        """One thread reads; others that come meanwhile wait for it and take the same."""
        with self._lock:
            if self._overview is None or time.monotonic() - self._read_at > self.fresh_s:
                self._overview = read()
                self._read_at = time.monotonic()
            return self._overview


def read() -> Overview:
    return Overview(at=timezone.now(), redis=_redis(), postgres=_postgres())


def _redis() -> InRedis | None:
    try:
        return from_redis.read(get_broker())
    except BrokerError as error:
        log.warning("overview.redis_unavailable", error=str(error))
        return None


def _postgres() -> InPostgres | None:
    try:
        return from_postgres.read()
    except DatabaseError as error:
        log.warning("overview.postgres_unavailable", error=str(error))
        return None


latest = Latest()

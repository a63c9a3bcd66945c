"""The huey instance of the housekeeping process. Its duties are in dalston_queue/orchestrator.

Huey passes a duty from its scheduler to a worker of the same process, and keeps nothing that must outlive the process:
which process works, and when a duty ran last, is in our own lease and tables. So its queue is in memory, and no Redis
but that of our own topology is needed.
"""

import threading
from functools import cache
from typing import Any

from huey import Huey
from huey.storage import MemoryStorage

from dalston_queue.health.loops import HOUSEKEEPING
from dalston_site import notify

POLL_S = 1.0
"""How long a worker waits before it looks whether the process shall end."""


class _Handover(MemoryStorage):  # type: ignore[misc]  # huey has no types
    """The memory storage with a worker that waits: huey's own polls with pauses of up to ten seconds."""

    blocking = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._changed = threading.Condition(self._lock)

    def enqueue(self, data: bytes, priority: float | None = None) -> None:
        with self._changed:
            super().enqueue(data, priority)
            self._changed.notify()

    def dequeue(self) -> bytes | None:
        HOUSEKEEPING.mark()
        with self._changed:
            self._changed.wait_for(self.queue_size, POLL_S)
            return super().dequeue()  # type: ignore[no-any-return]


class _Huey(Huey):  # type: ignore[misc]
    """Remembers its consumer, which knows whether the process is to end."""

    consumer: Any = None

    def create_consumer(self, **options: Any) -> Any:
        self.consumer = super().create_consumer(**options)
        return self.consumer

    def stopping(self) -> str:
        return "is stopping" if self.consumer is not None and self.consumer.stop_flag.is_set() else ""


def make_huey() -> Huey:
    # results=False: duties report through the database and the log.
    huey = _Huey("dalston", results=False, storage_class=_Handover)
    huey.on_startup(name="serve metrics")(serve)
    huey.on_startup(name="notify readiness")(notify.ready)
    return huey


DUTY_FACTOR = 5
"""So many times as long as another loop a duty may take."""


@cache  # each worker thread calls the hooks; the process has one port
def serve() -> None:
    """/metrics, /healthz and /readyz of housekeeping, and its watchdog."""
    from django.conf import settings
    from prometheus_client import REGISTRY

    from dalston_queue.health import watchdog
    from dalston_queue.health.servers import health_of
    from dalston_queue.metrics import collector
    from dalston_queue.metrics.server import ProcessServer, health_routes, metrics_of, parse_address
    from dalston_queue.tracing import export

    export.configure("housekeeping")
    health = health_of(
        "housekeeping", [HOUSEKEEPING], applies_events=False, factor=DUTY_FACTOR, stopping=settings.HUEY.stopping
    )
    watchdog.start(health)
    if settings.DALSTON_METRICS_ADDRESS:
        collector.register()
        routes = {"/metrics": metrics_of(REGISTRY), **health_routes(health)}
        ProcessServer(parse_address(settings.DALSTON_METRICS_ADDRESS), routes)

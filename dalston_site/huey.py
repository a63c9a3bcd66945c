"""The huey instance of the housekeeping process. Its duties are in dalston_queue/orchestrator.

Huey passes a duty from its scheduler to a worker of the same process, and keeps nothing that must outlive the process:
which process works, and when a duty ran last, is in our own lease and tables. So its queue is in memory, and no Redis
but that of our own topology is needed.
"""

import threading
from functools import cache

from huey import Huey
from huey.storage import MemoryStorage

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
        with self._changed:
            self._changed.wait_for(self.queue_size, POLL_S)
            return super().dequeue()  # type: ignore[no-any-return]


def make_huey() -> Huey:
    # results=False: duties report through the database and the log.
    huey = Huey("dalston", results=False, storage_class=_Handover)
    huey.on_startup(name="serve metrics")(serve_metrics)
    huey.on_startup(name="notify readiness")(notify.ready)
    return huey


@cache  # each worker thread calls the hooks; the process has one port
def serve_metrics() -> None:
    from django.conf import settings
    from prometheus_client import REGISTRY

    from dalston_queue.metrics.server import ProcessServer, metrics_of, parse_address

    if settings.DALSTON_METRICS_ADDRESS:
        ProcessServer(parse_address(settings.DALSTON_METRICS_ADDRESS), {"/metrics": metrics_of(REGISTRY)})

"""A thread that waits at Redis for new work, so that the runner can wait for that and for its own tasks at once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from dalston_queue.broker import Consumer, Delivery
from dalston_queue.broker.errors import Fenced, Unavailable

log = logging.getLogger("engine")


class Waiter:
    """Armed by the runner when it has free slots; says once whether work may be there, then rests until armed again.
    What it was woken for it claims at once."""

    def __init__(self, consumer: Consumer, woken: Callable[[bool, list[Delivery] | None], None]) -> None:
        """woken: whether to look for work, and what was claimed already; None: nobody asked."""
        self._consumer = consumer
        self._woken = woken
        self._free = 0
        self._armed = threading.Event()
        self._stopping = False
        threading.Thread(target=self._run, name="waiter", daemon=True).start()

    def arm(self, free: int) -> None:
        self._free = free
        self._armed.set()

    def stop(self) -> None:
        """The consumer is about to be closed under its feet."""
        self._stopping = True

    @property
    def armed(self) -> bool:
        return self._armed.is_set()

    def _run(self) -> None:
        while True:
            self._armed.wait()
            found, claimed = self._wait()
            self._armed.clear()
            self._woken(found, claimed)

    def _wait(self) -> tuple[bool, list[Delivery] | None]:
        """An engine without a waiter would be deaf: whatever goes wrong here is told, and tried again."""
        try:
            return False, self._consumer.claim(self._free, 1.0)
        except (Fenced, Unavailable):
            return True, None  # the runner hears it with its own call
        except Exception:
            if not self._stopping:
                log.exception("waiting for work failed")
            time.sleep(1.0)
            return False, None

"""A thread that waits at Redis for new work, so that the runner can wait for that and for its own tasks at once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from dalston_queue.broker import Consumer

log = logging.getLogger("engine")


class Waiter:
    """Armed by the runner when it has free slots; says once whether work may be there, then rests until armed again."""

    def __init__(self, consumer: Consumer, woken: Callable[[bool], None]) -> None:
        self._consumer = consumer
        self._woken = woken
        self._armed = threading.Event()
        self._stopping = False
        threading.Thread(target=self._run, name="waiter", daemon=True).start()

    def arm(self) -> None:
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
            found = self._wait()
            self._armed.clear()
            self._woken(found)

    def _wait(self) -> bool:
        """An engine without a waiter would be deaf: whatever goes wrong here is told, and tried again."""
        try:
            return self._consumer.wait(1.0)
        except Exception:
            if not self._stopping:
                log.exception("waiting for work failed")
            time.sleep(1.0)
            return False

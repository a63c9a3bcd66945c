"""What this process knows of its Postgres."""

import math
import threading
import time
from collections.abc import Callable

from psycopg import OperationalError

AWAY_S = 2.0


class Patience:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self.hangs = False
        """Did when it was last heard of."""
        self._try_at = self._asked_at = -math.inf

    def enter(self) -> None:
        """Before a connection is wanted. Raises OperationalError while the server hangs, but lets one try at times."""
        if not self.hangs:
            return
        with self._lock:
            now = time.monotonic()
            if now < self._try_at:
                raise _hung()
            self._try_at = now + AWAY_S

    def ask(self, hangs: Callable[[], bool]) -> None:
        """Raises OperationalError if it hangs. Whoever comes meanwhile or soon after takes the same answer."""
        with self._asking:
            if self._asked_at < time.monotonic() - AWAY_S:
                self.hung() if hangs() else self.answered()
                self._asked_at = time.monotonic()
        if self.hangs:
            raise _hung()

    def hung(self) -> None:
        with self._lock:
            self.hangs, self._try_at = True, time.monotonic() + AWAY_S

    def answered(self) -> None:
        self.hangs = False


def _hung() -> OperationalError:
    return OperationalError("Postgres hangs: it takes connections and does not answer")


patience = Patience()

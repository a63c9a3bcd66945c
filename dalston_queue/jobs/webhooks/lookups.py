"""Name lookups with a time limit.

`getaddrinfo` has none and can't be interrupted: it ends when the machine's resolver gives up, after as many timeouts as
there are dead name servers. So each name has a daemon thread of its own, which may be left behind; all callers that
want the name wait for its answer.
"""

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

LOOKUP_TIMEOUT_S = 6.0
"""More than the 5 s after which a resolver asks its second server."""
MAX_LOOKUPS = 64
"""Threads that a resolver may hold."""

Ask = Callable[[str], list[str]]


class LookupFailed(Exception):
    """The name was not found in time. Its message may be shown."""


class Lookups:
    def __init__(self, ask: Ask | None = None, timeout_s: float = LOOKUP_TIMEOUT_S) -> None:
        self._ask = ask or _addresses
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._lookups: dict[str, tuple[float, Future[list[str]]]] = {}

    def find(self, name: str, within_s: float) -> list[str]:
        """The addresses of a name. Raises LookupFailed if it takes longer, and what the resolver raises."""
        with suppress(socket.gaierror):
            return _addresses(name, socket.AI_NUMERICHOST)  # the name is an address: no lookup
        began, answer = self._join(name)
        left = began + self._timeout_s - time.monotonic()
        try:
            return answer.result(max(0.0, min(within_s, left)))
        except TimeoutError:
            raise LookupFailed(f"the resolver gave no answer for {name} in time") from None

    def _join(self, name: str) -> tuple[float, "Future[list[str]]"]:
        with self._lock:
            if found := self._lookups.get(name):
                return found
            if len(self._lookups) >= MAX_LOOKUPS:
                raise LookupFailed(
                    f"{name} was not looked up: the resolver has not answered for {MAX_LOOKUPS} other names"
                )
            answer: Future[list[str]] = Future()
            self._lookups[name] = found = (time.monotonic(), answer)
        threading.Thread(target=self._work, args=(name, answer), name="lookup", daemon=True).start()
        return found

    def _work(self, name: str, answer: "Future[list[str]]") -> None:
        try:
            found = self._ask(name)
        except BaseException as error:  # noqa: BLE001 (the waiting callers get it)
            self._forget(name)
            answer.set_exception(error)
        else:
            self._forget(name)
            answer.set_result(found)

    def _forget(self, name: str) -> None:
        """Called before the answer is set: a later caller starts a new lookup."""
        with self._lock:
            del self._lookups[name]


def _addresses(name: str, flags: int = 0) -> list[str]:
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=flags)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


lookups = Lookups()

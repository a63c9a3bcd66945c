"""Holders of turns: to whom a request belongs before it is authenticated, by what earlier requests have shown.

A token's project or a person, once a request with that credential was let in. What is not known yet, or not valid,
belongs to its client's address: invented credentials give no further turn.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.http import HttpRequest

from dalston_queue.turns import UNKNOWN

MAX_KNOWN = 10_000
_SESSION = re.compile(rb"(?:^|;)\s*" + re.escape(settings.SESSION_COOKIE_NAME.encode()) + rb"=([^;\s]+)")


class Holders:
    def __init__(self, limit: int = MAX_KNOWN) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, str] = OrderedDict()

    def of(self, scope: Any) -> str:
        credential = _credential(scope["headers"])
        with self._lock:
            found = self._known.get(credential) if credential else None
        return found or f"{UNKNOWN}{(scope.get('client') or ('',))[0]}"

    def learn(self, scope: Any, request: HttpRequest) -> None:
        """After the request was served: whose it was."""
        holder = _holder(request)
        credential = _credential(scope["headers"])
        if holder is None or credential is None:
            return
        with self._lock:
            self._known[credential] = holder
            self._known.move_to_end(credential)
            if len(self._known) > self._limit:
                self._known.popitem(last=False)


def _credential(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """A digest: no process keeps tokens in its memory. In the event loop: to parse all cookies of a large head takes as
    long as several requests."""
    session: bytes | None = None
    for name, value in headers:
        if name == b"authorization":
            return sha256(value).digest()
        if name == b"cookie" and (found := _SESSION.findall(value)):
            session = found[-1]  # of several Django takes the last
    return sha256(session).digest() if session else None


def _holder(request: HttpRequest) -> str | None:
    principal = getattr(request, "auth", None)
    if (holder := getattr(principal, "holder", None)) is not None:
        return str(holder)
    user = getattr(request, "_cached_user", None)  # read by the view, or by no one
    return f"user {user.pk}" if user is not None and user.is_authenticated else None

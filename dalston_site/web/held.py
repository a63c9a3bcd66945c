"""Bytes of request bodies and of answers in memory: a bound of all together, and a share for each holder.

A small body is read from any client, a large one from a client that is known (`holder_of`). The route checks the token
once more, with its scopes and its rate.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.db import DatabaseError
from django.http import parse_cookie
from django.utils import timezone

from dalston_queue.slots import has_room

SMALL_BYTES = 64 * 1024
MAX_BYTES = 256 * 1024 * 1024
"""Of all bodies that this process holds beyond their first SMALL_BYTES: in memory, or in temporary files."""
MAX_ANSWER_BYTES = 128 * 1024 * 1024
"""Of all answers that are not sent yet, beyond the first SMALL_BYTES of each."""
STEP_BYTES = 1024 * 1024


def holder_of(headers: dict[bytes, bytes]) -> str | None:
    """Whose share a large body takes: a valid token's project, or a person with a session. None: of no known client."""
    # Here, because the handler also serves a project without our models (bench/bare).
    from dalston_queue.models import ApiToken
    from dalston_queue.models.accounts import digest_of

    kind, _, text = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    try:
        if kind:
            if kind.lower() != "bearer":
                return None
            token = ApiToken.objects.filter(digest=digest_of(text.strip())).first()
            valid = token is not None and token.is_valid(timezone.now())
            return f"project {token.project_id}" if token is not None and valid else None
        cookies = parse_cookie(headers.get(b"cookie", b"").decode("latin-1"))
        user = SessionStore(cookies.get(settings.SESSION_COOKIE_NAME)).get(SESSION_KEY)
        return None if user is None else f"user {user}"
    except DatabaseError:
        return "unknown"  # the route answers 503


class HeldBytes:
    """The bytes that are held, in steps, by holder."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._limit = max_bytes // STEP_BYTES
        self._lock = threading.Lock()
        self._steps: Counter[str] = Counter()

    @contextmanager
    def held(self) -> Iterator["Held"]:
        """What one request holds; given up at its end."""
        held = Held(self)
        try:
            yield held
        finally:
            held.give_up()

    def take(self, holder: str) -> bool:
        with self._lock:
            if not has_room(self._steps[holder], self._steps.total(), self._limit):
                return False
            self._steps[holder] += 1
            return True

    def drop(self, holder: str, steps: int) -> None:
        with self._lock:
            self._steps[holder] -= steps
            self._steps += Counter()


class Held:
    def __init__(self, bodies: HeldBytes) -> None:
        self._bodies = bodies
        self._holder = ""
        self._steps = 0

    def grow(self, holder: str, size: int) -> bool:
        """Whether a body or an answer of this holder may have so many bytes."""
        self._holder = holder
        while self._steps * STEP_BYTES < size - SMALL_BYTES:
            if not self._bodies.take(holder):
                return False
            self._steps += 1
        return True

    def give_up(self) -> None:
        if self._steps:
            self._bodies.drop(self._holder, self._steps)
            self._steps = 0


bodies = HeldBytes()
answers = HeldBytes(MAX_ANSWER_BYTES)

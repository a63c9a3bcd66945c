"""A page's WebSocket, on the real web process."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from tests.support import WAIT_TIMEOUT_S
from tests.web import Web


@contextmanager
def socket(web: Web, session: httpx.Client | None, path: str, origin: str = "") -> Iterator[ClientConnection]:
    """socket(web, session, "overview/"): as the page of this session opens it."""
    headers = {"Cookie": f"sessionid={session.cookies['sessionid']}"} if session else {}
    url = f"ws://127.0.0.1:{web.port}/ws/{path}"
    with connect(url, origin=Origin(origin or web.url), additional_headers=headers) as connection:
        yield connection


def until(connection: ClientConnection, pattern: str, timeout: float = WAIT_TIMEOUT_S) -> str:
    """The first message that matches."""
    end = time.monotonic() + timeout
    while True:
        message = connection.recv(timeout=max(0.01, end - time.monotonic()))
        assert isinstance(message, str)
        if re.search(pattern, message):
            return message

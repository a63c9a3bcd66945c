"""Waits for the end of a job or a transcription by long polls."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from dalston_client.watch import OVER

MAX_WAIT_S = 30.0
Found = TypeVar("Found", bound=Any)


def wait_until_over(ask: Callable[[float], Found], timeout: float | None) -> Found:
    """What `ask` finds when that is over, or as it is after `timeout` seconds. `ask` gets how long it may wait."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        left = MAX_WAIT_S if end is None else max(0.0, min(MAX_WAIT_S, end - time.monotonic()))
        asked = time.monotonic()
        found = ask(left)
        if found["status"] in OVER or (end is not None and time.monotonic() >= end):
            return found
        time.sleep(max(0.0, min(left, 1.0) - (time.monotonic() - asked)))  # a busy server ignores `wait`

"""Watchdog of systemd (`WatchdogSec=`): a process whose /healthz fails sends no more WATCHDOG=1, and is restarted."""

from __future__ import annotations

import math
import os
import threading
import time
from http import HTTPStatus

from dalston_queue.health.report import Health
from engines.sdk.notify import notify


def interval_s() -> float:
    """How often WATCHDOG=1 has to be sent: a third of what the unit allows. Infinite without a watchdog."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    ours = os.environ.get("WATCHDOG_PID") in (None, str(os.getpid()))
    return int(microseconds) / 3_000_000 if ours and microseconds.isdecimal() else math.inf


def start(health: Health) -> None:
    """On a thread of its own; nothing if the unit has no watchdog."""
    pause_s = interval_s()
    if pause_s < math.inf:
        threading.Thread(target=_run, args=(health, pause_s), name="watchdog", daemon=True).start()


def _run(health: Health, pause_s: float) -> None:
    while True:
        if health.healthz()[0] == HTTPStatus.OK:
            notify("WATCHDOG=1", timeout_s=0.0)
        time.sleep(pause_s)

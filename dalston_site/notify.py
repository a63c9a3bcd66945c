"""READY=1 of this process, for systemd (`Type=notify`) or `./dev up`."""

import os

from engines.sdk.notify import notify


def ready() -> None:
    notify("READY=1", f"MAINPID={os.getpid()}")

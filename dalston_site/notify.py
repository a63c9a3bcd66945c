"""Says to whoever started this process, systemd (`Type=notify`) or `./dev up`, that it is ready."""

import os

from engines.sdk.notify import notify


def ready() -> None:
    notify("READY=1", f"MAINPID={os.getpid()}")

"""Dramatiq, taking ahead: the same with a queue prefetch of 100, so that its one thread never waits for its reader."""

import os

os.environ["dramatiq_queue_prefetch"] = "100"  # noqa: SIM112 - its name; read when dramatiq is imported

from bench.peers.dramatiq import sender, work

__all__ = ["sender", "work"]

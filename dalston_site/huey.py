"""The huey instance of the housekeeping process, made from settings. Its duties live in dalston_queue/orchestrator."""

import os

from huey import RedisHuey

from engines.sdk.notify import notify


def make_huey(redis_url: str, prefix: str) -> RedisHuey:
    # results=False: duties report through the database and the log, so nothing piles up in Redis.
    huey = RedisHuey(prefix, url=redis_url or None, results=False)
    huey.on_startup(name="say that it is ready")(say_ready)
    return huey


def say_ready() -> None:
    """To systemd or `./dev up`, whoever started us."""
    notify("READY=1", f"MAINPID={os.getpid()}")

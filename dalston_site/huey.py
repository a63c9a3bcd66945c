"""The huey instance of the housekeeping process, made from settings. Its duties live in dalston_queue/orchestrator."""

from huey import RedisHuey


def make_huey(redis_url: str, prefix: str) -> RedisHuey:
    # results=False: duties report through the database and the log, so nothing piles up in Redis.
    return RedisHuey(prefix, url=redis_url or None, results=False)

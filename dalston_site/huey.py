"""The huey instance of the housekeeping process. Its duties are in dalston_queue/orchestrator."""

from huey import RedisHuey

from dalston_site import notify


def make_huey(redis_url: str, prefix: str) -> RedisHuey:
    # results=False: duties report through the database and the log, so nothing piles up in Redis.
    # clean_name=False: huey would drop the dashes, and the prefixes a-b and ab would share a queue.
    huey = RedisHuey(prefix, url=redis_url or None, results=False, clean_name=False)
    huey.on_startup(name="notify readiness")(notify.ready)
    return huey

"""Ticks of a cron expression in a time zone. Clock changes are handled as Debian's cron does."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from dalston_queue.jobs.errors import InvalidJob


def next_tick(cron: str, time_zone: str, after: datetime) -> datetime | None:
    """The first tick after this time, or None if there is none within 50 years. Raises InvalidJob for bad input."""
    try:
        zone = ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError):
        raise InvalidJob(f"there is no time zone {time_zone!r}") from None
    try:
        tick = next(CronSim(cron, after.astimezone(zone)), None)
    except CronSimError as error:
        raise InvalidJob(f"{cron!r} is no cron expression: {error}") from None
    return None if tick is None else tick.astimezone(UTC)

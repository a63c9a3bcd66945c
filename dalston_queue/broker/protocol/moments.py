"""Times: the milliseconds of Redis and engines as a datetime in UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def moment_if(ms: int | None) -> datetime | None:
    """None for 0, which stands for "not yet" and "never", and for what is no time: a beat is what an engine says."""
    try:
        return moment(ms) if ms and ms > 0 else None
    except (OverflowError, OSError, ValueError):
        return None

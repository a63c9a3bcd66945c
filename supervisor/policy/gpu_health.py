"""What an Xid means. Some are the application's fault and cost it a restart; others mean that the GPU itself is ill.

An ill GPU is quarantined, then on probation, then healthy again; the next illness on probation doubles the quarantine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

APPLICATION = frozenset({13, 31, 43, 45})
ILL = frozenset({48, 79, 95, 119})
QUARANTINE = 600.0
LONGEST_QUARANTINE = 86400.0
PROBATION = 600.0


class Standing(StrEnum):
    HEALTHY = "healthy"
    QUARANTINED = "quarantined"  # no engine; time, or an admin's release, moves it on
    PROBATION = "probation"  # engines again, under suspicion; time moves it on


@dataclass(frozen=True, slots=True)
class Health:
    """Of one GPU."""

    standing: Standing = Standing.HEALTHY
    why: str = ""
    until: float = 0.0
    sentence: float = QUARANTINE  # the next quarantine's length
    last_xid: int = 0


@dataclass(frozen=True, slots=True)
class Response:
    health: Health
    restart_engines: bool = False  # those on this GPU, after their grace
    evict_engines: bool = False  # those on this GPU, now


def on_xid(health: Health, number: int, now: float) -> Response:
    if number in APPLICATION:
        return Response(replace(health, last_xid=number), restart_engines=True)
    if number not in ILL:
        return Response(replace(health, last_xid=number))
    sentence = min(health.sentence, LONGEST_QUARANTINE)
    ill = Health(Standing.QUARANTINED, f"quarantined after Xid {number}", now + sentence, sentence * 2, number)
    return Response(ill, evict_engines=True)


def on_time(health: Health, now: float) -> Health:
    if health.standing is Standing.QUARANTINED and now >= health.until:
        return released(health, now)
    if health.standing is Standing.PROBATION and now >= health.until:
        return Health(last_xid=health.last_xid)
    return health


def released(health: Health, now: float) -> Health:
    """The way back: by time, or by an admin's word."""
    if health.standing is not Standing.QUARANTINED:
        return health
    why = f"on probation after Xid {health.last_xid}"
    return replace(health, standing=Standing.PROBATION, why=why, until=now + PROBATION)

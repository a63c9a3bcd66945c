"""GPU health by Xid errors: some restart the engine that caused them, others quarantine the GPU.

After quarantine and probation the GPU is healthy again; another error on probation doubles the quarantine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

APPLICATION = frozenset({13, 31, 43, 45})
HARDWARE = frozenset({48, 79, 95, 119})
QUARANTINE_S = 600.0
MAX_QUARANTINE_S = 86400.0
PROBATION_S = 600.0


class Standing(StrEnum):
    HEALTHY = "healthy"
    QUARANTINED = "quarantined"  # no engine starts; ended by time or by an operator
    PROBATION = "probation"  # engines start again; ended by time


@dataclass(frozen=True, slots=True)
class Health:
    """State of one GPU."""

    standing: Standing = Standing.HEALTHY
    why: str = ""
    until: float = 0.0
    next_quarantine_s: float = QUARANTINE_S  # doubles with each quarantine
    last_xid: int = 0


@dataclass(frozen=True, slots=True)
class Response:
    health: Health
    restart_engines: bool = False  # on this GPU, after their grace
    evict_engines: bool = False  # on this GPU, now


def on_xid(health: Health, number: int, now: float) -> Response:
    if number in APPLICATION:
        return Response(replace(health, last_xid=number), restart_engines=True)
    if number not in HARDWARE:
        return Response(replace(health, last_xid=number))
    seconds = min(health.next_quarantine_s, MAX_QUARANTINE_S)
    quarantined = Health(Standing.QUARANTINED, f"quarantined after Xid {number}", now + seconds, seconds * 2, number)
    return Response(quarantined, evict_engines=True)


def on_time(health: Health, now: float) -> Health:
    if health.standing is Standing.QUARANTINED and now >= health.until:
        return released(health, now)
    if health.standing is Standing.PROBATION and now >= health.until:
        return Health(last_xid=health.last_xid)
    return health


def released(health: Health, now: float) -> Health:
    """From quarantine to probation: by time, or by an operator."""
    if health.standing is not Standing.QUARANTINED:
        return health
    why = f"on probation after Xid {health.last_xid}"
    return replace(health, standing=Standing.PROBATION, why=why, until=now + PROBATION_S)

"""Words that several pages share."""

from __future__ import annotations

from dalston_queue.broker.types import EngineState

SICK = {EngineState.CRASHLOOP, EngineState.FATAL, EngineState.UNKILLABLE, EngineState.UNHEALTHY, EngineState.DEAD}
"""Engines that somebody should look at."""


def count(number: int, noun: str) -> str:
    """no engines, 1 engine, 2 engines."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"

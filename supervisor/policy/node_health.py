"""A node on which everything dies takes no more work until an engine has stayed up for a minute."""

from __future__ import annotations

from collections.abc import Collection

from dalston_queue.broker.protocol.types import EngineState

from .lifecycle import Life

STEADY = 60.0


def everything_dies(lives: Collection[Life]) -> str:
    """Why the node should be cordoned; empty if it should not."""
    wanted = [life for life in lives if life.wanted]
    if not wanted or not all(life.history.looping for life in wanted):
        return ""
    failures = sum(len(life.history.failures) for life in wanted)
    return f"everything dies here: {failures} failures of all {len(wanted)} engines; the last: {wanted[-1].why}"


def recovered(lives: Collection[Life], now: float) -> bool:
    """One engine that stays up is enough to try again."""
    return any(
        life.state is EngineState.READY and life.ready_at is not None and now - life.ready_at >= STEADY
        for life in lives
    )

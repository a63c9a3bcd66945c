"""The load of lanes in the API, as an autoscaler reads it: numbers, never null."""

from __future__ import annotations

from ninja import Schema
from pydantic import Field


class Load(Schema):
    demand: int = Field(
        description="Tasks that want a slot now: running and waiting; of a paused queue the running ones."
    )
    waiting: int = Field(description="Tasks that no engine has.")
    running: int = Field(description="Tasks that engines have claimed and not settled.")
    oldest_age_seconds: float = Field(
        description="How long the oldest one waits; 0 if none does or the queue is paused."
    )


class LaneLoad(Load):
    queue: str
    capabilities: list[str]
    paused: bool


class ScaleOut(Load):
    lanes: list[LaneLoad] = Field(description="What the numbers above are the sum of.")
    more_queues: int = Field(description="Queues that are not among `lanes`, nor counted above: name one by `queue`.")

"""/scale: how many tasks want a slot, and how long the oldest one waits, for what starts and stops nodes."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpRequest
from ninja import Query, Router

from dalston_queue.api.auth.bearer import needs
from dalston_queue.api.errors.problems import answers
from dalston_queue.api.schemas.scale import LaneLoad, ScaleOut
from dalston_queue.broker.protocol.keys import NAME
from dalston_queue.broker.views.snapshot import LaneStats, QueueStats
from dalston_queue.jobs.queries.lanes import read_lanes
from dalston_queue.jobs.queries.queues import Selection, select
from dalston_queue.models.accounts import Scope
from dalston_queue.redis import get_broker

router = Router(tags=["queue"])

_NAME = NAME.pattern
MAX_CAPABILITIES = 1000


@router.get("/scale", auth=needs(Scope.READ), response=answers({200: ScaleOut}))
def scale(
    request: HttpRequest,
    queue: Annotated[
        str | None, Query(pattern=f"^{_NAME}$", description="Of this queue; a queue that is not used yet has zeros.")
    ] = None,
    capabilities: Annotated[
        str | None,
        Query(
            pattern=f"^({_NAME}([+]{_NAME})*)?$",
            max_length=MAX_CAPABILITIES,
            description="Only the tasks that engines with these can run: gpu+cuda. Empty: those that need none.",
        ),
    ] = None,
) -> ScaleOut:
    """How many tasks want a slot of an engine, in all and by lane. The same cost whatever waits."""
    broker = get_broker()
    shown = Selection([queue]) if queue else select(broker.queues())
    wanted = None if capabilities is None else {*filter(None, capabilities.split("+"))}
    lanes = [load for stats in read_lanes(broker, shown.names).queues for load in _loads(stats) if _fits(load, wanted)]
    return ScaleOut(
        demand=sum(load.demand for load in lanes),
        waiting=sum(load.waiting for load in lanes),
        running=sum(load.running for load in lanes),
        oldest_age_seconds=max((load.oldest_age_seconds for load in lanes), default=0.0),
        lanes=lanes,
        more_queues=shown.hidden,
    )


def _fits(load: LaneLoad, wanted: set[str] | None) -> bool:
    return wanted is None or wanted.issuperset(load.capabilities)


def _loads(stats: QueueStats) -> list[LaneLoad]:
    """A load per capability set: tiers and shards are added up."""
    by_set: dict[str, list[LaneStats]] = {}
    for lane in stats.lanes:
        by_set.setdefault(lane.capabilities, []).append(lane)
    return [_load(stats, capabilities, tiers) for capabilities, tiers in sorted(by_set.items())]


def _load(stats: QueueStats, capabilities: str, tiers: list[LaneStats]) -> LaneLoad:
    waiting, running = sum(lane.waiting for lane in tiers), sum(lane.pending for lane in tiers)
    oldest_ms = 0 if stats.paused else max((lane.oldest_age_ms or 0 for lane in tiers), default=0)
    return LaneLoad(
        queue=stats.queue,
        capabilities=capabilities.split("+") if capabilities else [],
        paused=stats.paused,
        waiting=waiting,
        running=running,
        demand=running if stats.paused else running + waiting,
        oldest_age_seconds=round(oldest_ms / 1000, 3),
    )

"""/queue/stats: the numbers of the whole installation by priority, and the exact lag of every lane."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from django.db.models import Count
from django.http import HttpRequest
from django.utils import timezone
from ninja import Router

from dalston_queue.api.auth.bearer import needs
from dalston_queue.api.errors.problems import answers
from dalston_queue.api.schemas.queues import Depth, Depths, Stats, Throughput, Workers, lane_out, seconds
from dalston_queue.broker.nodes.registry import EngineInfo
from dalston_queue.broker.protocol.types import EngineState, Tier
from dalston_queue.broker.views.snapshot import LaneStats, Snapshot
from dalston_queue.jobs.lifecycle.states import TaskStatus
from dalston_queue.models import Task
from dalston_queue.models.api_token import Scope
from dalston_queue.redis import get_broker

router = Router(tags=["queue"])

# A client thinks of three priorities. The tiers that come before and after them are counted with the nearest.
_LINES = {"high": {Tier.RECOVERED, Tier.HIGH}, "medium": {Tier.MEDIUM}, "low": {Tier.LOW, Tier.SUSPECT}}


@router.get("/queue/stats", auth=needs(Scope.READ), response=answers({200: Stats}))
def queue_stats(request: HttpRequest) -> Stats:
    """How much waits, who works, and what was done in the last minute."""
    broker = get_broker()
    snapshot = broker.snapshot()
    lanes = [lane for queue in snapshot.queues for lane in queue.lanes]
    return Stats(
        queues=Depths(**{line: _depth(lane for lane in lanes if lane.tier in tiers) for line, tiers in _LINES.items()}),
        workers=_workers(broker.registry.engines(), snapshot),
        throughput=_throughput(),
        lanes=[lane_out(lane) for lane in lanes],
    )


def _depth(lanes: Iterable[LaneStats]) -> Depth:
    lanes = list(lanes)
    ages = [lane.oldest_age_ms for lane in lanes if lane.oldest_age_ms is not None]
    return Depth(depth=sum(max(0, lane.lag) for lane in lanes), oldest_age_seconds=seconds(max(ages, default=None)))


def _workers(engines: list[EngineInfo], snapshot: Snapshot) -> Workers:
    """In use are no more than there are: an engine may hold quick tasks ahead, and a dead one those that it ran."""
    working = [engine for engine in engines if engine.state in {EngineState.READY, EngineState.DRAINING}]
    total = sum(engine.capacity for engine in working)
    return Workers(
        active=sum(engine.state is EngineState.READY for engine in engines),
        draining=sum(engine.state is EngineState.DRAINING for engine in engines),
        dead=sum(engine.state is EngineState.DEAD for engine in engines),
        total_capacity=total,
        used_capacity=min(total, sum(queue.running for queue in snapshot.queues)),
    )


def _throughput() -> Throughput:
    since = timezone.now() - timedelta(minutes=1)
    ended = Task.objects.filter(finished_at__gt=since).values_list("status").annotate(Count("id")).order_by()
    counts = {TaskStatus(status): count for status, count in ended}
    return Throughput(
        completed_last_minute=counts.get(TaskStatus.COMPLETED, 0),
        failed_last_minute=counts.get(TaskStatus.FAILED, 0) + counts.get(TaskStatus.DEAD_LETTER, 0),
    )

"""/queue/stats and /streams: numbers of queues and lanes, pending entries, pause and resume."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Annotated

from django.conf import settings
from django.db.models import Avg, Count, F
from django.http import HttpRequest
from django.utils import timezone
from ninja import Body, Path, Query, Router

from dalston_queue.api.auth.bearer import needs, sees_all_projects
from dalston_queue.api.auth.principal import principal_of
from dalston_queue.api.errors.problems import ApiProblem, Code, answers, not_found
from dalston_queue.api.schemas.base import ReasonIn
from dalston_queue.api.schemas.queues import (
    Ageing,
    Depth,
    Depths,
    PauseIn,
    PauseOut,
    PendingOut,
    PendingPageOut,
    Recovery,
    Stats,
    StreamOut,
    Throughput,
    Workers,
    lane_out,
    seconds,
    stream_out,
)
from dalston_queue.audit.record import audited
from dalston_queue.broker.nodes.registry import EngineInfo
from dalston_queue.broker.protocol.keys import NAME
from dalston_queue.broker.protocol.types import EngineState, Tier
from dalston_queue.broker.views.pages import PendingEntry, PendingOrder
from dalston_queue.broker.views.snapshot import LaneStats, Snapshot
from dalston_queue.jobs.lifecycle.states import TaskStatus
from dalston_queue.jobs.operator.pause import NoSuchQueue, check_queue, pause, resume
from dalston_queue.jobs.queries.lanes import read_lanes, read_ready
from dalston_queue.jobs.queries.queues import names, select
from dalston_queue.jobs.queries.waits import HOUR, UNKNOWN, Ages, ages_by_priority, recovered_since
from dalston_queue.models import Task
from dalston_queue.models.accounts import Scope
from dalston_queue.redis import get_broker

router = Router(tags=["queue"])

# Clients know three priorities. The tiers before and after them are counted with the nearest one.
_TIERS = {"high": {Tier.RECOVERED, Tier.HIGH}, "medium": {Tier.MEDIUM}, "low": {Tier.LOW, Tier.SUSPECT}}


@router.get("/queue/stats", auth=needs(Scope.READ), response=answers({200: Stats}))
def queue_stats(request: HttpRequest) -> Stats:
    """Waiting tasks, workers, and the throughput of the last minute. Of many queues the busiest."""
    broker = get_broker()
    shown = select(broker.queues())
    snapshot = read_lanes(broker, shown.names)
    lanes = [lane for queue in snapshot.queues for lane in queue.lanes]
    now, threshold_s = timezone.now(), settings.DALSTON_MEDIUM_TO_HIGH_S
    ages = ages_by_priority(now, threshold_s)
    oldest = max((lane.oldest_age_ms for lane in lanes if lane.oldest_age_ms is not None), default=None)
    recovered, timeouts = recovered_since(now - HOUR)
    return Stats(
        queues=Depths(
            **{
                name: _depth((lane for lane in lanes if lane.tier in tiers), ages.get(name, UNKNOWN))
                for name, tiers in _TIERS.items()
            }
        ),
        workers=_workers(broker.registry.engines(), snapshot),
        more_queues=shown.hidden,
        more_waiting=shown.waiting,
        throughput=_throughput(now),
        recovery=Recovery(recovered_last_hour=recovered, timeouts_last_hour=timeouts),
        ageing=Ageing(
            oldest_queued_task_age_seconds=seconds(oldest),
            threshold_seconds=threshold_s,
            tasks_waiting_over_threshold=sum(each.over for each in ages.values()),
        ),
        lanes=[lane_out(lane) for lane in lanes],
    )


def _depth(lanes: Iterable[LaneStats], ages: Ages) -> Depth:
    lanes = list(lanes)
    oldest = [lane.oldest_age_ms for lane in lanes if lane.oldest_age_ms is not None]
    return Depth(
        depth=sum(lane.waiting for lane in lanes),
        oldest_age_seconds=seconds(max(oldest, default=None)),
        p50_age_seconds=None if ages.p50_s is None else round(ages.p50_s, 3),
        p95_age_seconds=None if ages.p95_s is None else round(ages.p95_s, 3),
    )


def _workers(engines: list[EngineInfo], snapshot: Snapshot) -> Workers:
    """Used capacity is at most the total: an engine may prefetch, and a dead engine still has its tasks."""
    working = [engine for engine in engines if engine.state in {EngineState.READY, EngineState.DRAINING}]
    total = sum(engine.capacity for engine in working)
    return Workers(
        active=sum(engine.state is EngineState.READY for engine in engines),
        draining=sum(engine.state is EngineState.DRAINING for engine in engines),
        unhealthy=sum(engine.state is EngineState.UNHEALTHY for engine in engines),
        dead=sum(engine.state is EngineState.DEAD for engine in engines),
        total_capacity=total,
        used_capacity=min(total, sum(queue.running for queue in snapshot.queues)),
    )


def _throughput(now: datetime) -> Throughput:
    recent = Task.objects.filter(finished_at__gt=now - timedelta(minutes=1)).values_list("status")
    ended = recent.annotate(Count("id"), took=Avg(F("finished_at") - F("started_at"))).order_by()
    counts, durations = dict[TaskStatus, int](), dict[TaskStatus, timedelta | None]()
    for status, count, duration in ended:
        counts[TaskStatus(status)], durations[TaskStatus(status)] = count, duration
    duration = durations.get(TaskStatus.COMPLETED)
    return Throughput(
        avg_task_duration_seconds=None if duration is None else round(duration.total_seconds(), 3),
        completed_last_minute=counts.get(TaskStatus.COMPLETED, 0),
        failed_last_minute=counts.get(TaskStatus.FAILED, 0) + counts.get(TaskStatus.DEAD_LETTER, 0),
    )


Stage = Annotated[str, Path(pattern=f"^{NAME.pattern}$")]


@router.get("/streams", auth=needs(Scope.READ), response=answers({200: list[StreamOut]}))
def list_streams(
    request: HttpRequest,
    after: Annotated[str, Query(pattern=f"^({NAME.pattern})?$", description="The last queue of the page before.")] = "",
    limit: Annotated[int, Query(ge=1, le=200)] = 200,
) -> list[StreamOut]:
    """Queues with their lanes, by name. A page of `limit` queues may have another one behind it."""
    broker = get_broker()
    wanted = [name for name in names(broker.queues()) if name > after][:limit]
    return [stream_out(stats) for stats in read_lanes(broker, wanted).queues]


@router.get("/streams/{stage}/pending", auth=sees_all_projects(), response=answers({200: PendingPageOut}, 404))
def list_pending(
    request: HttpRequest,
    stage: Stage,
    order: Annotated[PendingOrder, Query(description="idle: longest idle first; deadline: next deadline first.")] = (
        PendingOrder.IDLE
    ),
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> PendingPageOut:
    """Tasks that engines have claimed and not settled (PEL), by page."""
    _known(stage)
    found = get_broker().pending(stage, order=order, offset=offset, limit=limit)
    return PendingPageOut(items=[_entry(entry) for entry in found.entries], total=found.total)


@router.post("/streams/{stage}/pause", auth=needs(Scope.OPERATE), response=answers({200: PauseOut}, 400, 404))
def pause_stage(request: HttpRequest, stage: Stage, body: Annotated[PauseIn, Body()]) -> PauseOut:
    """Engines claim no more from this queue; running tasks go on. With `new`, also a queue that is not used yet."""
    principal = principal_of(request)
    if not body.new:
        _check(stage, " To pause it before it has work, send `new`: true.")
    with audited("stage.pause", stage, reason=body.reason, **principal.signature()) as row:
        done = pause(stage, timezone.now(), actor=principal.name, reason=body.reason)
        row.after = {"paused": True, "changed": done.changed, "engines_notified": done.reached}
    return PauseOut(queue=stage, paused=True, changed=done.changed, engines_notified=done.reached)


@router.post("/streams/{stage}/resume", auth=needs(Scope.OPERATE), response=answers({200: PauseOut}, 400, 404))
def resume_stage(request: HttpRequest, stage: Stage, body: Annotated[ReasonIn, Body()]) -> PauseOut:
    """Engines claim from this queue again. Safe to repeat."""
    principal = principal_of(request)
    _check(stage, to_resume=True)
    with audited("stage.resume", stage, reason=body.reason, **principal.signature()) as row:
        done = resume(stage)
        row.after = {"paused": False, "changed": done.changed, "engines_notified": done.reached}
    return PauseOut(queue=stage, paused=False, changed=done.changed, engines_notified=done.reached)


def _check(stage: str, hint: str = "", *, to_resume: bool = False) -> None:
    try:
        check_queue(stage, to_resume=to_resume)
    except NoSuchQueue as error:
        raise ApiProblem(404, Code.NOT_FOUND, f"{error}{hint}") from None


def _known(stage: str) -> None:
    if stage not in get_broker().queues() and not read_ready([stage]):
        raise not_found(f"queue {stage}")


def _entry(entry: PendingEntry) -> PendingOut:
    record = entry.record
    return PendingOut(
        task_id=entry.task_id,
        job_id=record.job_id,
        worker_id=record.owner,
        attempt=record.attempt,
        deliveries=record.deliveries,
        idle_seconds=entry.idle_ms / 1000,
        running_seconds=entry.running_ms / 1000,
        overdue_seconds=seconds(entry.overdue_ms) if record.deadline_ms else None,
        cancel_requested=bool(record.cancel),
        progress=record.progress or None,
    )

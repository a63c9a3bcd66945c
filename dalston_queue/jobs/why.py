"""Why is this task not running? One code and one sentence, from what Postgres and Redis know of it.

`explain` is pure; `facts_about` gathers what it needs in a fixed number of reads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dalston_queue.broker import Broker
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.record import Record
from dalston_queue.broker.registry import EngineInfo
from dalston_queue.broker.snapshot import QueueStats
from dalston_queue.broker.types import TIERS, EngineState, RecordState, Tier
from dalston_queue.jobs.states import TASK_OVER, TaskStatus
from dalston_queue.models import StagePause, Task


class WhyCode(StrEnum):
    OVER = "over"
    RUNNING = "running"
    STOPPING = "stopping"
    WAITING_FOR_STAGES = "waiting_for_stages"
    SCHEDULED = "scheduled"
    BACKOFF = "backoff"
    NOT_CLAIMED = "not_claimed"
    NOT_DISPATCHED = "not_dispatched"
    REDIS_UNAVAILABLE = "redis_unavailable"
    PAUSED = "paused"
    NO_ENGINE = "no_engine"
    NO_CAPABLE_ENGINE = "no_capable_engine"
    SUSPECT = "suspect"
    ALL_BUSY = "all_busy"
    ABOUT_TO_RUN = "about_to_run"


@dataclass(frozen=True, slots=True)
class Why:
    code: WhyCode
    sentence: str


@dataclass(frozen=True, slots=True)
class Facts:
    """`queue` and `engines` are None when Redis does not answer."""

    unfinished: tuple[str, ...] = ()  # stages it waits for
    paused_because: str | None = None  # None: not paused
    record: Record | None = None
    queue: QueueStats | None = None
    engines: Sequence[EngineInfo] | None = None  # that serve its queue


def facts_about(task: Task, broker: Broker) -> Facts:
    """Reads what `explain` needs; Redis only if the task has got that far."""
    if task.status == TaskStatus.PENDING:
        siblings = Task.objects.filter(job_id=task.job_id, stage__in=task.after)
        return Facts(
            unfinished=tuple(siblings.exclude(status__in=TASK_OVER).order_by("id").values_list("stage", flat=True))
        )
    if task.status not in (TaskStatus.READY, TaskStatus.QUEUED):
        return Facts()
    pause = StagePause.objects.filter(queue=task.queue).first()
    because = None if pause is None else pause.reason
    try:
        record = broker.records(task.queue, [str(task.id)]).get(str(task.id))
        stats = next(iter(broker.snapshot([task.queue]).queues), None)
        engines = [engine for engine in broker.registry.engines() if task.queue in engine.queues]
    except BrokerError:
        return Facts(paused_because=because)
    return Facts(paused_because=because, record=record, queue=stats, engines=engines)


def explain(task: Task, facts: Facts, now: datetime) -> Why:
    match TaskStatus(task.status):
        case TaskStatus.RUNNING:
            return _running(task)
        case TaskStatus.SCHEDULED:
            return _scheduled(task, now)
        case TaskStatus.PENDING:
            return _pending(facts)
        case TaskStatus.READY | TaskStatus.QUEUED:
            return _in_line(task, facts)
        case over:
            return Why(WhyCode.OVER, f"It is over: {over.replace('_', ' ')}.")


def _running(task: Task) -> Why:
    if task.cancel_requested_at is not None:
        return Why(WhyCode.STOPPING, f"It runs on {task.assigned_worker_id}, which was asked to stop it.")
    return Why(WhyCode.RUNNING, f"It runs on {task.assigned_worker_id}.")


def _scheduled(task: Task, now: datetime) -> Why:
    at = task.scheduled_at
    left = 0 if at is None else max(0, round((at - now).total_seconds()))
    when = f"in {left} s" if at is not None and left else "now: the scheduler takes it within a second"
    if task.retry_count:
        tries = f"attempt {task.attempt} failed, and the next one"
        return Why(WhyCode.BACKOFF, f"It waits before a retry: {tries} starts {when}.")
    return Why(WhyCode.SCHEDULED, f"It was asked to start later: {when}.")


def _pending(facts: Facts) -> Why:
    if facts.unfinished:
        return Why(WhyCode.WAITING_FOR_STAGES, f"It waits for {', '.join(facts.unfinished)} to be over.")
    return Why(WhyCode.NOT_CLAIMED, "An orchestrator has not taken up its job yet: check that one is running.")


def _in_line(task: Task, facts: Facts) -> Why:
    if facts.paused_because is not None:
        reason = f": {facts.paused_because}" if facts.paused_because else ""
        return Why(WhyCode.PAUSED, f"The queue {task.queue} is paused{reason}.")
    if facts.engines is None:
        return Why(WhyCode.REDIS_UNAVAILABLE, "Redis does not answer: it will be delivered when Redis is back.")
    if facts.record is None or facts.queue is None:
        return Why(WhyCode.NOT_DISPATCHED, "It is ready and will be put in line within a second.")
    ready = [engine for engine in facts.engines if engine.state is EngineState.READY]
    if not ready:
        return Why(WhyCode.NO_ENGINE, f"No ready engine serves the queue {task.queue}.")
    wanted = set(task.required_capabilities)
    capable = [engine for engine in ready if wanted <= set(engine.capabilities)]
    if not capable:
        missing = f"{len(ready)} ready, none with {' and '.join(sorted(wanted))}"
        return Why(WhyCode.NO_CAPABLE_ENGINE, f"No engine of {task.queue} can run it: {missing}.")
    return _behind(facts.record, facts.queue, capable)


def _behind(record: Record, queue: QueueStats, capable: Sequence[EngineInfo]) -> Why:
    if record.state is RecordState.RUNNING:
        return Why(WhyCode.ABOUT_TO_RUN, f"{record.owner} has just claimed it.")
    mine = next((lane.tier for lane in queue.lanes if lane.stream == record.stream), Tier.MEDIUM)
    if mine is Tier.SUSPECT:
        died = f"{record.deliveries} engines died with it"
        return Why(WhyCode.SUSPECT, f"{died}: it runs alone, on an empty engine, after everything else.")
    ahead = sum(max(0, lane.lag) for lane in queue.lanes if TIERS.index(lane.tier) < TIERS.index(mine))
    with_it = sum(max(0, lane.lag) for lane in queue.lanes if lane.tier is mine)
    slots = sum(engine.capacity for engine in capable)
    line = f"{ahead} wait before it and {max(0, with_it - 1)} beside it, for {slots} slots"
    if queue.running >= slots:
        return Why(WhyCode.ALL_BUSY, f"All engines that can run it are busy: {line}.")
    return Why(WhyCode.ABOUT_TO_RUN, f"It is in line and should start soon: {line}.")

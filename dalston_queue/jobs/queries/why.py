"""Explains why a task is not running: one code and one sentence, from its row and Redis.

`explain` is pure; `facts_about` gathers what it needs in a fixed number of reads.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.conf import settings

from dalston_queue.broker import Broker
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.nodes.registry import EngineInfo
from dalston_queue.broker.protocol.record import Record
from dalston_queue.broker.protocol.types import TIERS, EngineState, RecordState, Tier
from dalston_queue.broker.views.snapshot import LaneStats, QueueStats
from dalston_queue.jobs.lifecycle.states import TASK_OVER, TaskStatus
from dalston_queue.jobs.order.large import full_projects
from dalston_queue.jobs.queries.lanes import read_lanes
from dalston_queue.jobs.queries.pace import in_words, paces, seconds_for
from dalston_queue.jobs.queries.turn import Order, has_room, held_by, order_of, share_of
from dalston_queue.jobs.queries.turn import position as ready_position
from dalston_queue.models import StagePause, Task

COUNT_LIMIT = 1_000
"""So many older tasks of a queue are counted, in Postgres: a stream can't count the entries before one."""


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
    LIMIT = "limit"
    SHARES = "shares"
    SUSPECT = "suspect"
    ALL_BUSY = "all_busy"
    ABOUT_TO_RUN = "about_to_run"


@dataclass(frozen=True, slots=True)
class Why:
    code: WhyCode
    sentence: str
    queue_position: int | None = None  # 1: next; None unless an engine can run the task
    eta_seconds: float | None = None  # until the start, if all engines are busy and the pace is known
    until: datetime | None = None  # when the task is due


@dataclass(frozen=True, slots=True)
class Facts:
    """`queue` and `engines` are None when Redis does not answer."""

    unfinished: tuple[str, ...] = ()  # stages that the task waits for
    redis_is_away: bool = False  # read for PENDING tasks only: no orchestrator claims a job without Redis
    paused_because: str | None = None  # None: not paused
    record: Record | None = None
    queue: QueueStats | None = None
    engines: Sequence[EngineInfo] | None = None  # that serve its queue
    pace: float | None = None  # tasks that leave its queue per second; None: not known
    earlier: int | None = None  # older QUEUED tasks of its queue and priority; None: not counted, or too many
    order: Order | None = None  # of a READY task
    names_others: bool = False  # whether other projects are named
    is_full: bool = False  # large entries of its project take all the bytes that they may take in Redis


def facts_about(task: Task, broker: Broker, *, names_others: bool = True) -> Facts:
    """Reads what `explain` needs. `names_others`: for a reader who may see all projects."""
    if task.status == TaskStatus.PENDING:
        siblings = Task.objects.filter(job_id=task.job_id, stage__in=task.after)
        waits_for = siblings.exclude(status__in=TASK_OVER).order_by("id").values_list("stage", flat=True)
        return Facts(unfinished=tuple(waits_for), redis_is_away=_is_away(task, broker))
    if task.status not in (TaskStatus.READY, TaskStatus.QUEUED):
        return Facts()
    pause = StagePause.objects.filter(queue=task.queue).first()
    because = None if pause is None else pause.reason
    try:
        record = broker.records(task.queue, [str(task.id)]).get(str(task.id))
        snapshot = read_lanes(broker, [task.queue])
        engines = [engine for engine in broker.registry.engines() if task.queue in engine.queues]
        capable = _capable(task, engines)
    except BrokerError:
        return Facts(paused_because=because)
    is_ready = task.status == TaskStatus.READY
    return Facts(
        paused_because=because,
        record=record,
        queue=next(iter(snapshot.queues), None),
        engines=engines,
        pace=paces(snapshot).get(task.queue),
        earlier=None if is_ready else _earlier(task, capable),
        order=order_of(task) if is_ready else None,
        names_others=names_others,
        is_full=is_ready and task.project_id in full_projects(),
    )


def _is_away(task: Task, broker: Broker) -> bool:
    try:
        broker.records(task.queue, [str(task.id)])
    except BrokerError:
        return True
    return False


def _capable(task: Task, engines: Sequence[EngineInfo]) -> list[EngineInfo]:
    ready = [engine for engine in engines if engine.state is EngineState.READY]
    return [engine for engine in ready if set(task.required_capabilities) <= set(engine.capabilities)]


def _competes(needed: Iterable[str], capable: Sequence[EngineInfo]) -> bool:
    """True if one of these engines has the needed capabilities."""
    return any(set(needed) <= set(engine.capabilities) for engine in capable)


def _earlier(task: Task, capable: Sequence[EngineInfo]) -> int | None:
    """Counted by id: ids are time-ordered, so tasks were queued in this order, except for retries and later stages."""
    older = Task.objects.filter(queue=task.queue, status=TaskStatus.QUEUED, id__lt=task.id).order_by("id")
    found = list(older.values_list("effective_priority", "required_capabilities")[: COUNT_LIMIT + 1])
    if len(found) > COUNT_LIMIT:
        return None
    return sum(priority == task.effective_priority and _competes(needed, capable) for priority, needed in found)


def explain(task: Task, facts: Facts, now: datetime) -> Why:
    match TaskStatus(task.status):
        case TaskStatus.RUNNING:
            return _running(task)
        case TaskStatus.SCHEDULED:
            return _scheduled(task, now)
        case TaskStatus.PENDING:
            return _pending(facts)
        case TaskStatus.READY | TaskStatus.QUEUED:
            return _waiting(task, facts, now)
        case over:
            return Why(WhyCode.OVER, f"It is over: {over.replace('_', ' ')}.")


def _running(task: Task) -> Why:
    if task.cancel_requested_at is not None:
        return Why(WhyCode.STOPPING, f"It runs on {task.assigned_worker_id}, which was asked to stop it.")
    return Why(WhyCode.RUNNING, f"It runs on {task.assigned_worker_id}.")


def _scheduled(task: Task, now: datetime) -> Why:
    at = task.scheduled_at
    left = 0 if at is None else max(0, round((at - now).total_seconds()))
    soon = "now: the scheduler takes it within a second"
    when = f"in {left} s, at {at:%Y-%m-%d %H:%M:%S} UTC" if at and left else soon
    if task.retry_count:  # the row has the next attempt already
        tries = f"attempt {task.attempt - 1} failed, and attempt {task.attempt}"
        return Why(WhyCode.BACKOFF, f"It waits before a retry: {tries} starts {when}.", until=at)
    return Why(WhyCode.SCHEDULED, f"It was asked to start later: {when}.", until=at)


def _pending(facts: Facts) -> Why:
    if facts.unfinished:
        return Why(WhyCode.WAITING_FOR_STAGES, f"It waits for {', '.join(facts.unfinished)} to be over.")
    if facts.redis_is_away:
        return Why(WhyCode.REDIS_UNAVAILABLE, "Redis does not answer: its job is claimed when Redis is back.")
    return Why(WhyCode.NOT_CLAIMED, "No orchestrator has claimed its job yet: check that one is running.")


def _waiting(task: Task, facts: Facts, now: datetime) -> Why:
    if facts.paused_because is not None:
        reason = f": {facts.paused_because}" if facts.paused_because else ""
        return Why(WhyCode.PAUSED, f"The queue {task.queue} is paused{reason}.")
    if facts.engines is None:
        return Why(WhyCode.REDIS_UNAVAILABLE, "Redis does not answer: it will be delivered when Redis is back.")
    order = facts.order or Order((task.project_id, task.concurrency_key))
    if facts.record is None and (why := _not_in_redis(task, facts, order, now)):
        return why
    capable = _capable(task, facts.engines)
    if not capable:
        return _no_engine(task, facts.engines)
    lanes = facts.queue.lanes if facts.queue else []
    competing = [lane for lane in lanes if _competes(filter(None, lane.capabilities.split("+")), capable)]
    if facts.record is not None:
        return _queued(facts, facts.record, competing, capable)
    return _ready(task, facts, order, competing, capable)


def _not_in_redis(task: Task, facts: Facts, order: Order, now: datetime) -> Why | None:
    """None if it waits for its window to have room."""
    if facts.is_full:
        bound = f"{settings.DALSTON_MAX_REDIS_BYTES:,} bytes"
        sentence = (
            f"The inputs of its project's tasks take {bound} in Redis, all that they may: it waits until some are over."
        )
        return Why(WhyCode.LIMIT, sentence)
    if held := held_by(order, now):
        return Why(WhyCode.LIMIT, held)
    lanes = facts.queue.lanes if facts.queue else []
    if task.status == TaskStatus.QUEUED or has_room(task, lanes, facts.engines or ()):
        return Why(WhyCode.NOT_DISPATCHED, "It is ready and will be queued within a second.")
    return None


def _no_engine(task: Task, engines: Sequence[EngineInfo]) -> Why:
    ready = sum(engine.state is EngineState.READY for engine in engines)
    if not ready:
        return Why(WhyCode.NO_ENGINE, f"No ready engine serves the queue {task.queue}.{_loading(engines)}")
    missing = f"{ready} ready, none with {' and '.join(sorted(set(task.required_capabilities)))}"
    return Why(WhyCode.NO_CAPABLE_ENGINE, f"No engine of {task.queue} can run it: {missing}.")


def _loading(engines: Sequence[EngineInfo]) -> str:
    """How far the first is: a model may be on its way for minutes."""
    reports = (engine.report for engine in engines if engine.state is EngineState.LOADING)
    notes = (f" {report.slot or 'An engine'} is loading: {report.why[:100]}." for report in reports if report.why)
    return next(notes, "")


def _ready(task: Task, facts: Facts, order: Order, lanes: Sequence[LaneStats], capable: Sequence[EngineInfo]) -> Why:
    """It waits in Postgres: the window before it is full, and no limit holds it."""
    position = ready_position(task, order, lanes)
    if task.tier == Tier.SUSPECT:
        return _suspect(task.deliveries + task.node_losses, position)
    about = "at most " if order.older is None else "about "
    share = share_of(order, task.queue, names_others=facts.names_others)
    return _busy(facts, f"{about}number {position}", position, capable, share)


def _suspect(losses: int, position: int) -> Why:
    lost = f"Engines were lost with it {losses} times"
    sentence = f"{lost}: it runs alone, on an empty engine, after everything else."
    return Why(WhyCode.SUSPECT, sentence, queue_position=position)


def _queued(facts: Facts, record: Record, lanes: Sequence[LaneStats], capable: Sequence[EngineInfo]) -> Why:
    if record.state is RecordState.RUNNING:
        return Why(WhyCode.ABOUT_TO_RUN, f"{record.owner} has just claimed it.")
    mine = next((lane.tier for lane in lanes if lane.stream == record.stream), Tier.MEDIUM)
    position = _position(lanes, mine, facts.earlier)
    if mine is Tier.SUSPECT:
        return _suspect(record.deliveries + record.losses, position)
    at_most = "at most " if facts.earlier is None else ""
    return _busy(facts, f"{at_most}number {position}", position, capable)


def _busy(facts: Facts, number: str, position: int, capable: Sequence[EngineInfo], share: str | None = None) -> Why:
    """It waits for a slot. `share`: which other project has most of the slots."""
    slots = sum(engine.capacity for engine in capable)
    place = f"it is {number} in the queue for {slots} slot{'' if slots == 1 else 's'}"
    if any(engine.report.running < engine.capacity for engine in capable):  # as of its last beat
        return Why(WhyCode.ABOUT_TO_RUN, f"It should start soon: {place}.", queue_position=position)
    eta = None if facts.pace is None else seconds_for(position, facts.pace)
    turn = "when its turn comes is not known yet" if eta is None else f"its turn comes in about {in_words(max(1, eta))}"
    if share is not None:
        sentence = f"It shares the slots: {share}; {place}, and {turn}."
        return Why(WhyCode.SHARES, sentence, queue_position=position, eta_seconds=eta)
    sentence = f"All engines that can run it are busy: {place}, and {turn}."
    return Why(WhyCode.ALL_BUSY, sentence, queue_position=position, eta_seconds=eta)


def _position(lanes: Sequence[LaneStats], mine: Tier, earlier: int | None) -> int:
    """The queue position: all tasks of higher tiers, also in Postgres, and the older ones in the windows of its own
    tier; all of these if not counted."""
    before = sum(lane.waiting for lane in lanes if TIERS.index(lane.tier) < TIERS.index(mine))
    with_it = max(1, sum(max(0, lane.lag) for lane in lanes if lane.tier is mine))
    return before + (with_it if earlier is None else min(with_it, earlier + 1))

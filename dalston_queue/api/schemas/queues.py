"""Queues in the API: the bodies of pause and resume, and the numbers of every queue and lane."""

from __future__ import annotations

from ninja import Schema
from pydantic import Field

from dalston_queue.api.schemas.base import ReasonIn
from dalston_queue.broker.views.snapshot import LaneStats, QueueStats


class PauseIn(ReasonIn):
    new: bool = Field(False, description="Also a queue that is not used yet: its first task will wait.")


class Depth(Schema):
    depth: int = Field(description="Waiting tasks.")
    oldest_age_seconds: float | None = Field(description="How long the oldest one waits; null if none does.")
    p50_age_seconds: float | None = Field(description="Half of them wait for longer. Null above 10 000 waiting tasks.")
    p95_age_seconds: float | None = Field(
        description="One in twenty waits for longer. Null above 10 000 waiting tasks."
    )


class Depths(Schema):
    high: Depth = Field(description="With tasks reclaimed from a lost engine: they come first.")
    medium: Depth
    low: Depth = Field(description="With suspects: they come last.")


class Workers(Schema):
    active: int
    draining: int
    unhealthy: int = Field(description="Their circuit breaker is open, or a probe fails: they take no work.")
    dead: int
    total_capacity: int
    used_capacity: int


class Throughput(Schema):
    completed_last_minute: int
    failed_last_minute: int
    avg_task_duration_seconds: float | None = Field(
        description="From the start to the end of the tasks that completed in the last minute; null if none did."
    )


class Recovery(Schema):
    """Of the last hour, counted to 10 000."""

    recovered_last_hour: int = Field(description="Tasks reclaimed from engines, workers and nodes that died.")
    timeouts_last_hour: int = Field(description="Attempts that timed out and were tried again.")


class Ageing(Schema):
    oldest_queued_task_age_seconds: float | None
    threshold_seconds: float = Field(description="DALSTON_MEDIUM_TO_HIGH_S: then a task counts as high.")
    tasks_waiting_over_threshold: int = Field(description="Waiting for longer, counted among 10 000.")


class LaneOut(Schema):
    queue: str
    capabilities: list[str]
    tier: str = Field(description="recovered, high, medium, low or suspect: the order in which engines claim.")
    waiting: int | None = Field(description="Waiting tasks: ready and lag. Null if lag is.")
    ready: int = Field(description="Tasks that wait in Postgres until the lane's window in Redis has room.")
    lag: int | None = Field(
        description="Undelivered entries in Redis, the lane's window. Null if Redis' own numbers contradict each other."
    )
    pending: int = Field(description="Claimed by an engine, not settled.")
    length: int
    oldest_age_seconds: float | None
    consistent: bool


class Stats(Schema):
    queues: Depths
    workers: Workers
    throughput: Throughput
    recovery: Recovery
    ageing: Ageing
    lanes: list[LaneOut] = Field(description="Of the busiest queues.")
    more_queues: int = Field(description="Queues that are not among `lanes`, nor counted above; GET /streams has all.")
    more_waiting: int = Field(description="Tasks that wait in those.")


class StreamOut(Schema):
    queue: str
    waiting: int = Field(description="Tasks that no engine has: in Postgres and in the windows.")
    ready: int = Field(description="Those of them that wait in Postgres.")
    running: int
    oldest_age_seconds: float | None
    paused: bool
    events_backlog: int = Field(description="Events of engines that are not stored in Postgres yet.")
    counters: dict[str, int] = Field(description="Since the queue exists: appended, completed, recovered, refused, …")
    lanes: list[LaneOut]


class PendingOut(Schema):
    task_id: str
    job_id: str
    worker_id: str
    attempt: int
    deliveries: int
    idle_seconds: float = Field(description="Since its claim or its last heartbeat.")
    running_seconds: float
    overdue_seconds: float | None = Field(description="Past its deadline; negative: time left; null: no deadline.")
    cancel_requested: bool
    progress: str | None


class PendingPageOut(Schema):
    items: list[PendingOut]
    total: int


class PauseOut(Schema):
    queue: str
    paused: bool
    changed: bool = Field(description="False: the queue was in that state before.")
    engines_notified: bool = Field(description="False: Redis does not answer; engines are notified as soon as it does.")


def seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else round(milliseconds / 1000, 3)


def lane_out(lane: LaneStats) -> LaneOut:
    return LaneOut(
        queue=lane.queue,
        capabilities=[name for name in lane.capabilities.split("+") if name],
        tier=lane.tier,
        waiting=lane.waiting if lane.consistent else None,
        ready=lane.ready,
        lag=lane.lag if lane.consistent else None,
        pending=lane.pending,
        length=lane.length,
        oldest_age_seconds=seconds(lane.oldest_age_ms),
        consistent=lane.consistent,
    )


def stream_out(stats: QueueStats) -> StreamOut:
    return StreamOut(
        queue=stats.queue,
        waiting=stats.waiting,
        ready=stats.ready,
        running=stats.running,
        oldest_age_seconds=seconds(stats.oldest_age_ms),
        paused=stats.paused,
        events_backlog=stats.events_backlog,
        counters=stats.counters,
        lanes=[lane_out(lane) for lane in stats.lanes],
    )

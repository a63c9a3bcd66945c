"""Types of the API's answers. The values are its JSON, with the fields that a newer server adds."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

Priority = Literal["high", "medium", "low"]
NodeCommand = Literal["drain", "resume", "cordon", "uncordon", "restart", "rolling_restart", "scale", "release_gpu"]


class TaskError(TypedDict):
    message: str
    type: str
    retriable: bool
    cause: str


class TaskEvent(TypedDict):
    at: str
    transition: str
    from_status: str
    to_status: str
    attempt: int
    deliveries: int
    engine_id: str
    cause: str
    message: str


class Task(TypedDict):
    task_id: str
    job_id: str
    task_type: str
    stage: str
    queue: str
    status: str
    priority: Priority
    effective_priority: Priority
    required_capabilities: list[str]
    concurrency_key: str | None
    parameters: dict[str, Any]
    timeout_seconds: int
    max_retries: int
    retry_count: int
    attempt: int
    deliveries: int
    assigned_worker_id: str | None
    created_at: str
    scheduled_at: str | None
    started_at: str | None
    completed_at: str | None
    cancelled_at: str | None
    current_state_seconds: float
    progress: float | None
    idempotency_key: str | None
    result: Any
    error: TaskError | None
    trace_id: str
    queue_position: int | None
    estimated_wait_seconds: float | None
    history: list[TaskEvent] | None


class Delivery(TypedDict):
    attempt: int
    engine_id: str
    started_at: str | None
    finished_at: str | None
    outcome: str | None
    cause: str
    message: str


class JobTask(Task):
    after: list[str]
    required: bool
    weight: float
    progress: float | None
    progress_message: str
    progress_known: bool
    runs: list[Delivery]
    result_left_out: bool


class Webhook(TypedDict):
    delivery_id: str
    url: str
    status: str
    state: str
    attempts: int
    next_at: str | None
    last_code: int | None
    last_error: str | None
    delivered_at: str | None


class Job(TypedDict):
    job_id: str
    name: str
    project: str
    status: str
    priority: Priority
    parameters: dict[str, Any]
    progress: float
    error: str | None
    created_at: str
    started_at: str | None
    completed_at: str | None
    trace_id: str
    callback_url: str | None
    webhooks: list[Webhook] | None
    tasks: list[JobTask] | None


class BatchItem(TypedDict):
    job_id: str | None
    task_ids: list[str]
    created: bool
    code: str | None
    detail: str | None


class Batch(TypedDict):
    accepted: int
    refused: int
    items: list[BatchItem]


class CancelledTask(TypedDict):
    task_id: str
    status: str
    was_running: bool
    engine_notified: bool


class CancelledJob(TypedDict):
    job_id: str
    status: str
    was_running: bool
    engine_notified: bool


class Why(TypedDict):
    task_id: str
    status: str
    code: str
    why: str
    queue_position: int | None
    eta_seconds: float | None
    until: str | None


class DeadLetter(TypedDict):
    dead_letter_id: str
    task_id: str | None
    queue: str
    task_type: str
    cause: str
    error: str
    error_type: str
    retriable: bool
    fingerprint: str
    attempt: int
    deliveries: int
    engine_id: str
    evidence: Any
    traceback: str | None
    raw: dict[str, Any] | None
    created_at: str
    replayed_at: str | None
    discarded_at: str | None


class Group(TypedDict):
    fingerprint: str
    count: int
    queue: str
    cause: str
    error: str
    first_at: str
    last_at: str


class Replayed(TypedDict):
    dead_letter_id: str
    outcome: str
    task_id: str | None
    attempt: int | None


class ReplayedMany(TypedDict):
    matched: int
    replayed: int
    items: list[Replayed]


class ReplayBatch(TypedDict):
    replay_batch_id: str
    state: str
    actor: str
    reason: str
    filter: dict[str, Any] | None
    parameters: dict[str, Any] | None
    priority: Priority | None
    rate_per_minute: int | None
    matched: int
    handled: int
    replayed: int
    already: int
    refused: int
    error: str | None
    ended_by: str | None
    created_at: str
    starts_at: str
    started_at: str | None
    finished_at: str | None
    already_open: bool


class Withdrawn(TypedDict):
    outcome: Literal["undone", "stopped"]
    replay_batch: ReplayBatch


class Discarded(TypedDict):
    dead_letter_id: str
    discarded: bool


class Engine(TypedDict):
    engine_id: str
    state: str
    queues: list[str]
    capabilities: list[str]
    capacity: int
    info: dict[str, Any]
    last_beat_at: str | None


class Node(TypedDict):
    node_id: str
    state: str
    info: dict[str, Any]
    last_beat_at: str | None
    engines: list[Engine]


class Command(TypedDict):
    command_id: str
    command: str
    state: str
    message: str
    requested_at: str
    taken_at: str | None
    ended_at: str | None


class WorkerDrain(TypedDict):
    worker_id: str
    should_drain: bool
    changed: bool


class Forgotten(TypedDict):
    node_id: str
    engines: list[str]


class LogLine(TypedDict):
    at: str | None
    text: str


class Logs(TypedDict):
    node_id: str
    engine: str
    lines: list[LogLine]


class Lane(TypedDict):
    queue: str
    capabilities: list[str]
    tier: str
    waiting: int | None
    ready: int
    lag: int | None
    pending: int
    length: int
    oldest_age_seconds: float | None
    consistent: bool


class Stream(TypedDict):
    queue: str
    waiting: int
    ready: int
    running: int
    oldest_age_seconds: float | None
    paused: bool
    events_backlog: int
    counters: dict[str, int]
    lanes: list[Lane]


class Paused(TypedDict):
    queue: str
    paused: bool
    changed: bool
    engines_notified: bool


class Limit(TypedDict):
    limit_id: int
    queue: str | None
    project: str | None
    concurrency_key: str | None
    max_in_flight: int | None
    starts_per_minute: int | None
    in_flight: int
    waiting: int
    fullest_key: str | None
    keys_at_limit: int | None
    next_start_seconds: float | None


class LimitSet(Limit):
    changed: bool


class LimitRemoved(TypedDict):
    limit_id: int
    scope: str


class Weight(TypedDict):
    project: str
    weight: int
    in_flight: int
    all_in_flight: int


class WeightSet(Weight):
    changed: bool


class Depth(TypedDict):
    depth: int
    oldest_age_seconds: float | None
    p50_age_seconds: float | None
    p95_age_seconds: float | None


class Workers(TypedDict):
    active: int
    draining: int
    unhealthy: int
    dead: int
    total_capacity: int
    used_capacity: int


class Throughput(TypedDict):
    completed_last_minute: int
    failed_last_minute: int
    avg_task_duration_seconds: float | None


class Recovery(TypedDict):
    recovered_last_hour: int
    timeouts_last_hour: int


class Ageing(TypedDict):
    oldest_queued_task_age_seconds: float | None
    threshold_seconds: float
    tasks_waiting_over_threshold: int


class Stats(TypedDict):
    queues: dict[Priority, Depth]
    workers: Workers
    throughput: Throughput
    recovery: Recovery
    ageing: Ageing
    lanes: list[Lane]
    more_queues: int
    more_waiting: int

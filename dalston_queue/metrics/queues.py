"""Gauges and counters that are read at a scrape: queues, tasks, workers, duties, dead letters. `collector` fills them.

Each web, orchestrator and housekeeping process serves all of them: use `max`, not `sum`, over processes.
"""

from __future__ import annotations

from functools import partial

from dalston_queue.broker.engine.breaker import BreakerState
from dalston_queue.broker.protocol.types import EngineState, NodeState
from dalston_queue.metrics.declare import CAUSES, NODES, STAGES, TIERS, read

_read = partial(read, set_in="metrics/collector.py", served_by="web, orchestrator, housekeeping")
_BY_STAGE = {"stage": STAGES}
_BY_TIER = {"stage": STAGES, "priority": TIERS}

REDIS_UP = _read("gauge", "dalston_redis_up", "1 if Redis answered the last reading; without it its numbers are absent")
POSTGRES_UP = _read("gauge", "dalston_postgres_up", "1 if Postgres answered the last reading")
SNAPSHOT_AGE = _read(
    "gauge", "dalston_snapshot_age_seconds", "Age of the dashboard's snapshot that the gauges are from"
)

DEPTH = _read("gauge", "dalston_queue_depth", "Tasks waiting, in Postgres and in the windows in Redis", labels=_BY_TIER)
READY = _read("gauge", "dalston_queue_ready", "Those of them that wait in Postgres", labels=_BY_TIER)
LAG = _read(
    "gauge",
    "dalston_queue_lag",
    "Undelivered entries in Redis, exact; absent while the counts are inconsistent",
    labels=_BY_TIER,
)
AGE = _read(
    "gauge",
    "dalston_queue_age_seconds",
    "Age of the waiting tasks, since first ready; a percentile is absent if more than 2000 tasks are older",
    labels={**_BY_TIER, "percentile": "p50, p95, p99, oldest"},
)
PAUSED = _read("gauge", "dalston_queue_paused", "1 while an operator paused the queue", labels=_BY_STAGE)
PENDING = _read("gauge", "dalston_tasks_pending", "Running tasks (PEL)", labels=_BY_STAGE)
STALE = _read(
    "gauge",
    "dalston_tasks_stale",
    "Running tasks that were not renewed for DALSTON_STALE_THRESHOLD_MS",
    labels=_BY_STAGE,
)
RECOVERED = _read(
    "counter", "dalston_task_recovery_total", "Tasks reclaimed from dead engines, from Redis", labels=_BY_STAGE
)
REFUSED = _read(
    "counter",
    "dalston_results_refused_total",
    "Results that did not count: of engines that had lost the task or their session",
    labels=_BY_STAGE,
)
ENDED = _read(
    "counter",
    "dalston_queue_attempts_total",
    "Attempts that ended at an engine, from Redis",
    labels={"stage": STAGES, "outcome": "completed, failed, cancelled, expired, exhausted"},
)
BACKLOG = _read("gauge", "dalston_events_backlog", "Events that no orchestrator has applied yet", labels=_BY_STAGE)
STATES = _read(
    "gauge",
    "dalston_task_state_total",
    "Tasks by state; pending, scheduled and dead_letter are counted to 10 000",
    labels={"status": "pending, scheduled, ready, queued, running, dead_letter"},
)
WORKERS = _read("gauge", "dalston_workers_total", "Engines by state", labels={"status": ", ".join(EngineState)})
NODES_BY_STATE = _read("gauge", "dalston_nodes_total", "Nodes by state", labels={"status": ", ".join(NodeState)})
CAPACITY = _read("gauge", "dalston_worker_capacity", "Slots of ready engines: tasks that may run at once")
USED = _read("gauge", "dalston_worker_capacity_used_ratio", "Share of those slots that run a task; 0 without an engine")
BREAKERS = _read(
    "gauge",
    "dalston_worker_breakers_open",
    "Engines and workers over HTTP whose circuit breaker is not closed",
    labels={"state": ", ".join(state for state in BreakerState if state is not BreakerState.CLOSED)},
)
PROBES = _read("gauge", "dalston_worker_probes_failing", "Engines whose health probe fails")
DISK = _read(
    "gauge",
    "dalston_disk_used_ratio",
    "Share of the file system in use that holds a node's state, logs and artifacts",
    labels={"node": NODES},
)
LEADER = _read("gauge", "dalston_leader", "1 while a process holds the lease", labels={"role": "orchestrator"})
DUTY_AGE = _read(
    "gauge",
    "dalston_duty_age_seconds",
    "Time since a duty's last run",
    labels={"duty": "the duties of docs/orchestrator.md"},
)
DUTY_OVERDUE = _read(
    "gauge",
    "dalston_duty_overdue_seconds",
    "Time since a duty is late: its last run is older than two intervals and a minute; else 0",
    labels={"duty": "the duties of docs/orchestrator.md"},
)
DUTY_FAILURES = _read(
    "gauge",
    "dalston_duty_failures",
    "Failed runs of a duty in a row",
    labels={"duty": "the duties of docs/orchestrator.md"},
)
WEBHOOK_BACKLOG = _read("gauge", "dalston_webhook_backlog", "Webhooks that are not delivered yet, counted to 10 000")
OPEN_DEAD_LETTERS = _read(
    "gauge",
    "dalston_dead_letters_open",
    "Open dead letters of the last 24 h by cause, counted in the newest 10 000",
    labels={"reason": CAUSES},
)
RETRIABLE = _read(
    "gauge",
    "dalston_dead_letters_retriable",
    "Those of them that may pass: a replay is worth a try",
)

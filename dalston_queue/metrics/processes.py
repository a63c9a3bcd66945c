"""Counters of the orchestrator, housekeeping and web processes. The module in `set_in` counts."""

from __future__ import annotations

from dalston_queue.metrics.declare import counter, histogram, live_gauge

# --- Orchestrator -------------------------------------------------------------------------------------------------
EVENTS = counter(
    "dalston_events_applied_total",
    "Events taken through a commit",
    set_in="orchestrator/batch.py",
    served_by="orchestrator",
)
POISON = counter(
    "dalston_events_poison_total",
    "Events that could not be applied and became dead letters",
    set_in="orchestrator/batch.py",
    served_by="orchestrator",
)
SCANNED = counter(
    "dalston_scheduler_scanned_total",
    "Scheduled tasks found due",
    set_in="orchestrator/scheduler.py",
    served_by="orchestrator",
)
DUE = counter(
    "dalston_scheduler_queued_total",
    "Scheduled tasks made ready",
    set_in="orchestrator/scheduler.py",
    served_by="orchestrator",
)
SCHEDULER_FAILED = counter(
    "dalston_scheduler_failed_total",
    "Polls for due tasks that failed",
    set_in="orchestrator/scheduler.py",
    served_by="orchestrator",
)
LATENESS = histogram(
    "dalston_scheduler_lateness_seconds",
    "How long after its time a scheduled task became ready",
    set_in="orchestrator/scheduler.py",
    served_by="orchestrator",
    buckets=(0.1, 0.25, 0.5, 1, 2, 5, 15, 60, 300),
)
WEBHOOKS = counter(
    "dalston_webhook_attempts_total",
    "Attempts to deliver a webhook",
    set_in="jobs/webhooks/sender.py",
    served_by="orchestrator",
    labels={"outcome": "delivered, failed, gave_up"},
    from_zero=[("delivered",), ("failed",), ("gave_up",)],
)
DISPATCH_FAILURES = counter(
    "dalston_dispatch_failures_total",
    "Failed pushes to Redis: a task that was refused, else one for each call",
    set_in="jobs/lifecycle/dispatch.py, jobs/submit/hints.py",
    served_by="orchestrator; web for hints",
    labels={"reason": "refused, wrong_key_type, full, unavailable, hint"},
    from_zero=[("refused",), ("wrong_key_type",), ("full",), ("unavailable",), ("hint",)],
)
HEARTBEAT_FAILURES = counter(
    "dalston_worker_heartbeat_failures_total",
    "Engines and nodes that the judge found dead because their heartbeat stopped",
    set_in="orchestrator/recovery.py",
    served_by="orchestrator (the leader)",
    labels={"kind": "engine, node"},
    from_zero=[("engine",), ("node",)],
)

# --- Housekeeping -------------------------------------------------------------------------------------------------
DUTY_RUNS = counter(
    "dalston_duty_runs_total",
    "Runs of the periodic duties",
    set_in="orchestrator/duties/run.py",
    served_by="housekeeping",
    labels={"duty": "the duties of docs/orchestrator.md", "outcome": "ok, failed"},
)

# --- Web ----------------------------------------------------------------------------------------------------------
REQUESTS = counter(
    "dalston_http_requests_total",
    "HTTP requests; a stream counts when it starts",
    set_in="metrics/web.py",
    served_by="web",
    labels={
        "method": "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, other",
        "route": "patterns of our URLs, `none` without one",
        "status": "HTTP status codes",
    },
)
REQUEST_SECONDS = histogram(
    "dalston_http_request_duration_seconds",
    "Time to the answer, or to its start for a stream",
    set_in="metrics/web.py",
    served_by="web",
    labels={"method": "as above", "route": "as above"},
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
VIEWERS = live_gauge(
    "dalston_websocket_viewers",
    "Open WebSockets of live pages",
    set_in="dashboard/live/consumer.py",
    served_by="web",
)

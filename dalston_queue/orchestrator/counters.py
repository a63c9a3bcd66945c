"""Metrics of one orchestrator process: what it has counted since it started."""

from prometheus_client import Counter, Histogram

SCANNED = Counter("dalston_scheduler_scanned", "Scheduled tasks found due")
QUEUED = Counter("dalston_scheduler_queued", "Scheduled tasks made ready")
FAILED = Counter("dalston_scheduler_failed", "Polls for due tasks that failed")
LATENESS = Histogram(
    "dalston_scheduler_lateness_seconds",
    "How long after its time a scheduled task became ready",
    buckets=(0.1, 0.25, 0.5, 1, 2, 5, 15, 60, 300),
)
EVENTS = Counter("dalston_events_applied", "Events taken through a commit")
POISON = Counter("dalston_events_poison", "Events that could not be applied and became dead letters")

"""The broker's leaf: names of priorities, tiers, causes, events and states. Imports nothing of ours.

Each state's comment says which operation or process moves it on.
"""

from __future__ import annotations

from enum import StrEnum


class Priority(StrEnum):
    """The priority that the submitter asked for."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Tier(StrEnum):
    """The stream of its lane that an entry is in; engines claim strictly in this order."""

    RECOVERED = "recovered"  # reclaimed, released or requeued
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    SUSPECT = "suspect"  # two engines died with it: claimed last, alone on an empty engine


TIERS: tuple[Tier, ...] = tuple(Tier)
SUSPECT_FROM = 2
"""Deliveries from which a task is a suspect; include/lane.lua has the same."""


def tier_number(tier: Tier) -> int:
    """The number of a tier in the scripts: from 1, in claiming order."""
    return TIERS.index(tier) + 1


class Cause(StrEnum):
    """Why an attempt did not complete. The retry policy reads it."""

    ERROR = "error"
    REJECTED = "rejected"
    ENGINE_LOST = "engine_lost"
    NODE_LOST = "node_lost"
    TIMEOUT = "timeout"
    GPU_OOM = "gpu_oom"
    RATE_LIMITED = "rate_limited"
    CANCELLED = "cancelled"
    DRAINED = "drained"


class EventKind(StrEnum):
    """What engines, scripts and submitters report to the orchestrators."""

    JOB_CREATED = "job.created"  # a hint by the submitter; pending jobs are polled as well
    TASK_STARTED = "task.started"  # settle_and_claim delivered it to an engine
    TASK_COMPLETED = "task.completed"  # its owner settled it; ends the attempt
    TASK_FAILED = "task.failed"  # its owner settled it, or the scanner or supervisor expired it; ends the attempt
    TASK_CANCELLED = "task.cancelled"  # its owner stopped it on request; ends the attempt
    TASK_RECOVERED = "task.recovered"  # reclaim returned the task to its queue, same attempt
    TASK_EXHAUSTED = "task.exhausted"  # reclaim found its delivery budget used up; ends the attempt
    TASK_RELEASED = "task.released"  # its engine released it, or an operator requeued it; uncounted, same attempt
    TASK_DEAD_LETTERED = "task.dead_lettered"  # its entry can't be read; has the raw fields; ends the attempt

    @property
    def ends_attempt(self) -> bool:
        return self in _ENDS_ATTEMPT


_ENDS_ATTEMPT = frozenset(
    {
        EventKind.TASK_COMPLETED,
        EventKind.TASK_FAILED,
        EventKind.TASK_CANCELLED,
        EventKind.TASK_EXHAUSTED,
        EventKind.TASK_DEAD_LETTERED,
    }
)


class RecordState(StrEnum):
    """State of a task's record in Redis."""

    WAITING = "w"  # in a lane, undelivered; claim or cancel moves it on
    RUNNING = "r"  # owned by an engine; settle, release, reclaim or expire moves it on
    SETTLED = "s"  # tombstone; acknowledging the event deletes it


class EngineState(StrEnum):
    """State of an engine, reported by its supervisor in a heartbeat; `dead` is set by the judge only."""

    PENDING = "pending"
    STARTING = "starting"
    LOADING = "loading"
    READY = "ready"  # active: takes work
    DRAINING = "draining"
    STOPPED = "stopped"
    BACKOFF = "backoff"
    CRASHLOOP = "crashloop"
    FATAL = "fatal"
    RECLAIMING = "reclaiming"
    UNKILLABLE = "unkillable"
    UNHEALTHY = "unhealthy"  # circuit breaker open or probe failing: takes no work
    DEAD = "dead"


class NodeState(StrEnum):
    """State of a node, reported by its supervisor; `dead` is set by the judge only."""

    ACTIVE = "active"
    CORDONED = "cordoned"
    DRAINING = "draining"
    DEAD = "dead"


class Appended(StrEnum):
    """What append did with one message."""

    ADDED = "added"
    DUPLICATE = "duplicate"  # this attempt is waiting or running already: fine
    SETTLED = "settled"  # this attempt has ended and its event isn't committed yet: fine, don't queue it again
    SUPERSEDED = "superseded"  # Redis knows a later attempt


class Removed(StrEnum):
    """What remove or request_cancel found."""

    REMOVED = "removed"  # it was waiting and is gone
    FLAGGED = "flagged"  # it runs; its engine sees the request within a second
    RUNNING = "running"  # it runs and was left alone (remove only)
    SETTLED = "settled"  # it ended; its event is on the way
    ABSENT = "absent"  # Redis has no such attempt


class Settled(StrEnum):
    """The script's answer to one settlement. Anything but ACCEPTED is counted as refused."""

    ACCEPTED = "ok"
    LOST = "lost"  # not the owner at this attempt any more; the result does not count


class Role(StrEnum):
    """Roles that hold a lease; the value is part of the key."""

    ORCHESTRATOR = "orchestrator"
    HOUSEKEEPING = "housekeeping"

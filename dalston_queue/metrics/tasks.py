"""Counters and histograms of transitions. `jobs/lifecycle/status.py` calls `count` after the commit of each move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Protocol

from dalston_queue.broker.protocol.types import Cause, Priority
from dalston_queue.jobs.lifecycle.states import TASK_TRANSITIONS, TaskStatus
from dalston_queue.metrics.declare import CAUSES, PRIORITIES, TIERS, counter, histogram

_STATUSES = ", ".join(TaskStatus)
_SET_IN = "jobs/lifecycle/status.py"
_BY = "orchestrator; web and housekeeping for the moves they make"
_WAITS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600)

TRANSITIONS = counter(
    "dalston_task_state_transitions_total",
    "Transitions of tasks",
    set_in=_SET_IN,
    served_by=_BY,
    labels={"from": _STATUSES, "to": _STATUSES},
    from_zero=sorted({(source, move.target) for move in TASK_TRANSITIONS.values() for source in move.sources}),
)
PROMOTED = counter(
    "dalston_tasks_promoted_total",
    "Tasks that ageing moved to a higher priority",
    set_in=_SET_IN,
    served_by="housekeeping",
    labels={"from": TIERS, "to": TIERS},
    from_zero=[("low", "medium"), ("medium", "high")],
)
RETRIES = counter(
    "dalston_task_retries_total",
    "Attempts that ended and are followed by another one",
    set_in=_SET_IN,
    served_by=_BY,
    labels={"priority": PRIORITIES, "reason": CAUSES},
    from_zero=list(product(Priority, Cause)),
)
FAILED = counter(
    "dalston_tasks_failed_total",
    "Attempts that failed, retried or not",
    set_in=_SET_IN,
    served_by=_BY,
    labels={"priority": PRIORITIES, "reason": CAUSES},
    from_zero=list(product(Priority, Cause)),
)
DEAD_LETTERED = counter(
    "dalston_tasks_dlq_total",
    "Tasks that became dead letters, and unreadable messages",
    set_in="jobs/lifecycle/status.py, jobs/lifecycle/dead_letters.py",
    served_by=_BY,
    labels={"reason": f"{CAUSES}, unreadable"},
    from_zero=[*((cause,) for cause in Cause), ("unreadable",)],
)
WAIT = histogram(
    "dalston_task_wait_seconds",
    "Time from ready to the claim, of tasks that start for the first time since they were submitted or replayed",
    set_in=_SET_IN,
    served_by=_BY,
    labels={"priority": PRIORITIES},
    buckets=_WAITS,
)
CLAIM = histogram(
    "dalston_task_claim_latency_seconds",
    "Time from the window in Redis to the claim, of each start",
    set_in=_SET_IN,
    served_by=_BY,
    labels={"priority": PRIORITIES},
    buckets=(0.01, 0.05, *_WAITS),
)
EXECUTION = histogram(
    "dalston_task_execution_duration_seconds",
    "Time from the claim to the end of an attempt, by the state it led to",
    set_in=_SET_IN,
    served_by=_BY,
    labels={"priority": PRIORITIES, "status": _STATUSES},
    buckets=(0.05, *_WAITS, 7200),
)
DURATION = histogram(
    "dalston_task_duration_seconds",
    "Time from the submission to the end of a task, waits and retries included",
    set_in=_SET_IN,
    served_by=_BY,
    labels={"priority": PRIORITIES, "status": _STATUSES},
    buckets=(*_WAITS, 7200, 21_600),
)
SUBMITTED = counter(
    "dalston_tasks_submitted_total",
    "Tasks of accepted jobs",
    set_in="jobs/submit/submit.py",
    served_by="web; orchestrator for schedules",
    labels={"priority": PRIORITIES},
    from_zero=[(priority,) for priority in Priority],
)


class Move(Protocol):
    """What is counted of a task that moved; times in seconds, None where the move has no such time."""

    @property
    def was(self) -> str: ...
    @property
    def with_start(self) -> bool: ...
    @property
    def tier(self) -> str: ...
    @property
    def old_tier(self) -> str: ...
    @property
    def priority(self) -> str: ...
    @property
    def cause(self) -> str: ...
    @property
    def waited_s(self) -> float | None: ...
    @property
    def claim_s(self) -> float | None: ...
    @property
    def ran_s(self) -> float | None: ...
    @property
    def took_s(self) -> float | None: ...


def count(name: str, target: str, moves: Sequence[Move]) -> None:
    """Count these moves of one transition, which are committed."""
    steps: Counter[tuple[str, str]] = Counter()
    for move in moves:
        # A start that came together with its completion is one statement and two transitions.
        steps[TaskStatus.RUNNING if move.with_start else move.was, target] += 1
        if move.with_start:
            steps[move.was, TaskStatus.RUNNING] += 1
        _observe(move, target)
    for (was, to), number in steps.items():
        TRANSITIONS.labels(was, to).inc(number)
    if name == "promote":
        for move in moves:
            PROMOTED.labels(move.old_tier, move.tier).inc()
    if name in _FAILURES:
        _count_failures(name, moves)


_FAILURES = frozenset({"retry", "fail", "dead_letter"})


def _count_failures(name: str, moves: Sequence[Move]) -> None:
    for (priority, reason), number in Counter((move.priority, reason_of(move.cause)) for move in moves).items():
        FAILED.labels(priority, reason).inc(number)
        if name == "retry":
            RETRIES.labels(priority, reason).inc(number)
        if name == "dead_letter":
            DEAD_LETTERED.labels(reason).inc(number)


def reason_of(cause: str) -> str:
    """A cause as a label. What a newer engine may report is `error`: the values are bounded."""
    return cause if cause in _REASONS else Cause.ERROR


_REASONS = frozenset(Cause)


def _observe(move: Move, target: str) -> None:
    if move.waited_s is not None:
        WAIT.labels(move.priority).observe(max(0.0, move.waited_s))
    if move.claim_s is not None:
        CLAIM.labels(move.priority).observe(max(0.0, move.claim_s))
    if move.ran_s is not None:
        EXECUTION.labels(move.priority, target).observe(max(0.0, move.ran_s))
    if move.took_s is not None:
        DURATION.labels(move.priority, target).observe(max(0.0, move.took_s))

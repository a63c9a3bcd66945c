"""The states of jobs and tasks, and every legal transition between them, as data. Imports nothing of ours.

`status` builds its guarded UPDATEs from these tables, and `docs/lifecycle.md` is drawn from them.
"""

from dataclasses import dataclass
from enum import StrEnum


class TaskStatus(StrEnum):
    PENDING = "pending"
    """Waits for the stages in `after`. The orchestrator moves it on when the last of them is over."""
    SCHEDULED = "scheduled"
    """Waits for `scheduled_at`: a wanted start time, or a retry's backoff. The scheduler moves it on."""
    READY = "ready"
    """May run, and has no entry in Redis yet: it is its own outbox. Dispatch moves it on."""
    QUEUED = "queued"
    """Has a live entry in a stream. An engine's claim moves it on, through the `started` event."""
    RUNNING = "running"
    """An engine holds it. The engine's settlement moves it on, or the reclaim after the engine died."""
    COMPLETED = "completed"
    """Over: it has a result."""
    FAILED = "failed"
    """Over: optional, and its budgets are used up. Its dependents run without its result."""
    DEAD_LETTER = "dead_letter"
    """Over unless an operator replays it: required, and its budgets are used up or it was rejected."""
    CANCELLED = "cancelled"
    """Over: it was cancelled, or its job failed while it ran. A replay of the job reopens it."""
    SKIPPED = "skipped"
    """Over: its job ended before it could run. A replay of the job reopens it."""


class JobStatus(StrEnum):
    PENDING = "pending"
    """Accepted. The first orchestrator to see it claims it."""
    RUNNING = "running"
    """Has tasks that may still run. The orchestrator moves it on when the last one is over."""
    CANCELLING = "cancelling"
    """Ending early (cancelled, or a required task died) while engines are being asked to stop. The orchestrator ends it
    when the last engine has answered or was killed."""
    COMPLETED = "completed"
    """Over: every required task completed."""
    FAILED = "failed"
    """Over unless an operator replays its dead letter: a required task died."""
    CANCELLED = "cancelled"
    """Over: it was cancelled."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One legal transition: from which states, to which, and which process makes it."""

    name: str
    sources: frozenset[str]
    target: str
    mover: str


def _task(name: str, sources: str, target: TaskStatus, mover: str) -> Transition:
    return Transition(name, frozenset(TaskStatus(source) for source in sources.split()), target, mover)


def _job(name: str, sources: str, target: JobStatus, mover: str) -> Transition:
    return Transition(name, frozenset(JobStatus(source) for source in sources.split()), target, mover)


# An engine can be faster than the transaction that records its entry, so what engines report is accepted from ready and
# queued as well as from running: the attempt and the event's sequence number are the guard, not the state.
_AT_ENGINE = "ready queued running"
_LIVE = "pending scheduled ready queued running"

TASK_TRANSITIONS: dict[str, Transition] = {
    move.name: move
    for move in (
        _task("make_ready", "pending", TaskStatus.READY, "orchestrator: every stage in `after` is over"),
        _task(
            "defer", "pending", TaskStatus.SCHEDULED, "orchestrator: as make_ready, with `scheduled_at` in the future"
        ),
        _task("due", "scheduled", TaskStatus.READY, "scheduler: its time has come"),
        _task("promote", "ready queued", TaskStatus.READY, "ageing: it has waited long; from a window it is withdrawn"),
        _task("withdraw", "queued", TaskStatus.READY, "refill: its limit is used up, and a better task waits for it"),
        _task("enqueue", "ready", TaskStatus.QUEUED, "refill: the entry is in its stream"),
        _task("start", _AT_ENGINE, TaskStatus.RUNNING, "orchestrator: an engine claimed it"),
        _task("recover", _AT_ENGINE, TaskStatus.QUEUED, "orchestrator: its engine died or released it"),
        _task("complete", _AT_ENGINE, TaskStatus.COMPLETED, "orchestrator: the engine settled it as done"),
        _task("retry", _AT_ENGINE, TaskStatus.SCHEDULED, "retry policy: failed, and the budget allows another attempt"),
        _task("rebuild", _AT_ENGINE, TaskStatus.READY, "reconciler: its entry is lost; a new attempt"),
        _task("fail", _AT_ENGINE, TaskStatus.FAILED, "retry policy: budgets used up, and it is optional"),
        _task(
            "dead_letter",
            _AT_ENGINE,
            TaskStatus.DEAD_LETTER,
            "retry policy: rejected or budgets used up, and it is required",
        ),
        _task("cancel", _LIVE, TaskStatus.CANCELLED, "cancel: not at an engine, or its engine confirmed"),
        _task("skip", "pending scheduled ready", TaskStatus.SKIPPED, "orchestrator: its job ends before it could run"),
        _task("replay", "dead_letter", TaskStatus.READY, "operator: fresh budgets; a new attempt"),
        _task("reopen", "skipped cancelled", TaskStatus.PENDING, "operator: another task of the job is replayed"),
    )
}

JOB_TRANSITIONS: dict[str, Transition] = {
    move.name: move
    for move in (
        _job("claim", "pending", JobStatus.RUNNING, "orchestrator: the first one to see it"),
        _job(
            "complete",
            "running cancelling",
            JobStatus.COMPLETED,
            "orchestrator: every task is over, none died; or a cancel came too late to stop a required one",
        ),
        _job(
            "wind_down",
            "running pending",
            JobStatus.CANCELLING,
            "cancel, or a required task died: engines are asked to stop",
        ),
        _job(
            "fail",
            "running cancelling",
            JobStatus.FAILED,
            "orchestrator: a required task died and none is left running",
        ),
        _job("cancel", "pending running cancelling", JobStatus.CANCELLED, "cancel: nothing is left running"),
        _job("replay", "failed", JobStatus.RUNNING, "operator: a dead letter of it is replayed"),
    )
}

TASK_OVER: frozenset[TaskStatus] = frozenset(
    {
        TaskStatus.COMPLETED,
        TaskStatus.FAILED,
        TaskStatus.DEAD_LETTER,
        TaskStatus.CANCELLED,
        TaskStatus.SKIPPED,
    }
)
JOB_OVER: frozenset[JobStatus] = frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED})

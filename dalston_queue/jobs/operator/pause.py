"""Pauses and resumes a queue. The row is the truth; the flag that engines see is in Redis, and restored if lost."""

from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches

import structlog

from dalston_queue.broker.errors import BrokerError
from dalston_queue.jobs.queries.lanes import read_ready
from dalston_queue.models import OperatorAction, StagePause, Task
from dalston_queue.redis import get_broker

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PauseResult:
    changed: bool  # False: the queue was paused, or not paused, before
    reached: bool  # False: Redis does not answer; an orchestrator sets the flag when it does


class NoSuchQueue(LookupError):
    """No engine and no task has used this name: it is probably misspelt."""

    def __init__(self, queue: str, known: list[str]) -> None:
        alike = get_close_matches(queue, known, 3)
        hint = f" Did you mean {' or '.join(alike)}?" if alike else ""
        super().__init__(f"There is no queue {queue}: no engine has asked for it and no task has gone into it.{hint}")


def check_queue(queue: str, *, to_resume: bool = False) -> None:
    """Raises NoSuchQueue; while Redis does not answer, any name passes. A queue that was ever paused can be resumed."""
    try:
        known = get_broker().queues()
    except BrokerError:
        return
    in_redis = Task.objects.filter(queue=queue, status__in=["queued", "running"])  # also if Redis lost them
    if queue in known or StagePause.objects.filter(queue=queue).exists() or in_redis.exists() or read_ready([queue]):
        return
    if to_resume and OperatorAction.objects.filter(target=queue, action="stage.pause").exists():
        return
    raise NoSuchQueue(queue, known)


def pause(queue: str, now: datetime, *, actor: str, reason: str = "") -> PauseResult:
    """Engines claim nothing more from this queue; running tasks go on."""
    _, created = StagePause.objects.get_or_create(queue=queue, defaults={"actor": actor, "reason": reason, "at": now})
    return PauseResult(created, _set_flag(queue, paused=True))


def resume(queue: str) -> PauseResult:
    deleted, _ = StagePause.objects.filter(queue=queue).delete()
    return PauseResult(deleted > 0, _set_flag(queue, paused=False))


def restore() -> int:
    """Make the flags in Redis agree with the rows; returns how many were wrong. The rows are read last, so that a pause
    or resume that comes in between is seen."""
    broker = get_broker()
    flagged = {stats.queue for stats in broker.snapshot().queues if stats.paused}
    wanted = set(StagePause.objects.values_list("queue", flat=True))
    for queue in wanted - flagged:
        broker.pause(queue)
    for queue in flagged - wanted:
        broker.resume(queue)
    return len(wanted ^ flagged)


def _set_flag(queue: str, *, paused: bool) -> bool:
    broker = get_broker()
    try:
        broker.pause(queue) if paused else broker.resume(queue)
    except BrokerError as error:
        log.warning("redis does not answer; an orchestrator will set the flag", queue=queue, error=str(error))
        return False
    return True

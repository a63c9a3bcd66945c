"""Pauses and resumes a queue. The row is the truth; the flag that engines see is in Redis, and put back if lost."""

from dataclasses import dataclass
from datetime import datetime

import structlog

from dalston_queue.broker.errors import BrokerError
from dalston_queue.models import StagePause
from dalston_queue.redis import get_broker

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Braked:
    changed: bool  # False: somebody was faster
    told: bool  # False: Redis does not answer, and engines learn of it when it does


def pause(queue: str, now: datetime, *, actor: str, reason: str = "") -> Braked:
    """Engines claim nothing more from this queue; what runs goes on."""
    _, created = StagePause.objects.get_or_create(queue=queue, defaults={"actor": actor, "reason": reason, "at": now})
    return Braked(created, _say(queue, paused=True))


def resume(queue: str) -> Braked:
    deleted, _ = StagePause.objects.filter(queue=queue).delete()
    return Braked(deleted > 0, _say(queue, paused=False))


def restore() -> int:
    """Make Redis agree with the rows; returns how many flags were wrong."""
    broker = get_broker()
    wanted = set(StagePause.objects.values_list("queue", flat=True))
    flagged = {stats.queue for stats in broker.snapshot().queues if stats.paused}
    for queue in wanted - flagged:
        broker.pause(queue)
    for queue in flagged - wanted:
        broker.resume(queue)
    return len(wanted ^ flagged)


def _say(queue: str, *, paused: bool) -> bool:
    broker = get_broker()
    try:
        broker.pause(queue) if paused else broker.resume(queue)
    except BrokerError as error:
        log.warning("redis does not answer; the reconciler will set the flag", queue=queue, error=str(error))
        return False
    return True

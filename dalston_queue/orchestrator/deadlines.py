"""Deadlines: ends tasks that have run for too long, also those of a live engine.

The SDK and the supervisor keep the deadlines of engines. A worker over HTTP has neither: the leading orchestrator ends
its overdue tasks at each poll. The scanner ends what all of them missed.
"""

from collections.abc import Collection

from django.conf import settings

from dalston_queue.broker import Broker
from dalston_queue.broker.engine.remote import RemoteWorker
from dalston_queue.broker.errors import WrongKeyType
from dalston_queue.broker.nodes.registry import EngineInfo
from dalston_queue.broker.operations.reclaim import Expired
from dalston_queue.broker.protocol.messages import ErrorInfo
from dalston_queue.broker.protocol.types import Cause
from dalston_queue.broker.views.pages import PendingEntry, PendingOrder
from dalston_queue.redis import breaker_rules

PAGE = 500


def expire_tasks_of_workers(broker: Broker, workers: Collection[EngineInfo]) -> int:
    """End the tasks of these workers over HTTP that are past their deadline and its grace; returns how many."""
    ids = {worker.engine_id for worker in workers}
    grace_ms = int(settings.DALSTON_WORKER_DEADLINE_GRACE_S * 1000)
    expired = 0
    for queue in sorted({queue for worker in workers for queue in worker.queues}):
        try:
            page = broker.pending(queue, order=PendingOrder.DEADLINE, overdue_by_ms=grace_ms, limit=PAGE)
        except WrongKeyType:  # the scanner reports it; the other queues go on
            continue
        for entry in page.entries:
            if entry.record.owner in ids and expire(broker, entry, past_deadline(entry)):
                expired += 1
                worker = RemoteWorker.find(broker, entry.record.owner, breaker_rules())
                if worker is not None:
                    worker.record(succeeded=False)
    return expired


def past_deadline(entry: PendingEntry) -> str:
    return f"it ran {entry.overdue_ms // 1000} s past its deadline"


def expire(broker: Broker, entry: PendingEntry, message: str) -> bool:
    """Take a task from its owner as timed out; False if it was renewed or has ended meanwhile."""
    error = ErrorInfo(message=message, type="Timeout", cause=Cause.TIMEOUT)
    record = entry.record
    judged_ms = record.renewed_at_ms or None
    return broker.expire(entry.queue, entry.task_id, record.attempt, error, judged_ms=judged_ms) is Expired.EXPIRED

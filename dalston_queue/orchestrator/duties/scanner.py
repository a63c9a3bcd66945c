"""The stale scanner: the backstop of the supervisors and the judge.

It reclaims the tasks of engines that the judge condemned, and judges no engine itself. A task past its deadline plus a
grace, or not renewed within the absolute timeout, is taken from its owner, even a live one, and fails with the cause
`timeout`.
"""

from collections.abc import Iterator

from django.conf import settings

from dalston_queue.broker import Broker
from dalston_queue.broker.operations.reclaim import VERDICT
from dalston_queue.broker.views.pages import PendingEntry, PendingOrder
from dalston_queue.orchestrator.deadlines import PAGE, expire, past_deadline
from dalston_queue.orchestrator.duties.report import Report, for_each
from dalston_queue.redis import get_broker


def scan() -> Report:
    broker = get_broker()
    report = Report()

    def scan_queue(queue: str) -> None:
        _reclaim_from_the_dead(broker, queue, report)
        _expire(broker, _overdue(broker, queue), report)
        _expire(broker, _forgotten(broker, queue), report)

    for_each(broker.queues(), scan_queue)
    return report


def _reclaim_from_the_dead(broker: Broker, queue: str, report: Report) -> None:
    """Finish what a leading orchestrator left that died between verdict and reclaim."""
    for engine, cause in broker.registry.dead(queue).items():
        taken = broker.reclaim(
            engine,
            [queue],
            cause,
            judged={queue: VERDICT},
            max_deliveries=settings.DALSTON_MAX_DELIVERIES,
            max_losses=settings.DALSTON_MAX_DELIVERIES_NODE_LOST,
        )
        report.note("recovered", len(taken.recovered))
        report.note("exhausted", len(taken.exhausted))


def _overdue(broker: Broker, queue: str) -> Iterator[tuple[PendingEntry, str]]:
    """Tasks past their deadline for longer than the supervisor needs to end them."""
    grace_ms = int(settings.DALSTON_DEADLINE_GRACE_S * 1000)
    page = broker.pending(queue, order=PendingOrder.DEADLINE, overdue_by_ms=grace_ms, limit=PAGE)
    for entry in page.entries:
        yield entry, past_deadline(entry)


def _forgotten(broker: Broker, queue: str) -> Iterator[tuple[PendingEntry, str]]:
    """Tasks not renewed for the absolute timeout, or for their own timeout if that is longer."""
    absolute_ms: int = settings.DALSTON_ABSOLUTE_TIMEOUT_MS
    page = broker.pending(queue, order=PendingOrder.IDLE, min_idle_ms=absolute_ms, limit=PAGE)
    for entry in page.entries:
        own_ms = entry.record.deadline_ms - entry.record.claimed_at_ms if entry.record.deadline_ms else 0
        if entry.idle_ms > max(absolute_ms, own_ms):
            yield entry, f"its engine did not renew it for {entry.idle_ms // 1000} s"


def _expire(broker: Broker, entries: Iterator[tuple[PendingEntry, str]], report: Report) -> None:
    for entry, message in entries:
        expired = expire(broker, entry, message)
        report.note("expired" if expired else "gone meanwhile", repaired=expired)

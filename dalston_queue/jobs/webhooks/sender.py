"""The webhook sender: sends due deliveries, in threads beside the loop of every orchestrator.

A delivery is claimed by a committed UPDATE that makes it due again a while later, sent outside of any transaction, and
then marked. If the orchestrator dies in between, the delivery is sent again, with the same id. A receiver gets at most
a few at a time, so that a dead receiver does not hold up the others.

Each delivery is sent in a daemon thread of its own, not in a pool: Python waits for a pool's threads when the process
ends, and a slow receiver would delay the stop.

A project may have a slot more while fewer are its own than are free: at most half of them, and one is left for a
project that has none.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from random import SystemRandom
from uuid import UUID

import structlog
from django.conf import settings
from django.db import Error, connection
from django.utils import timezone

from dalston_queue import crash_points
from dalston_queue.database import drop_broken_connection
from dalston_queue.health import outages
from dalston_queue.jobs.errors import InvalidCallback
from dalston_queue.jobs.webhooks.attempt import Delivered, NotDelivered, send
from dalston_queue.jobs.webhooks.deliveries import allowed_networks, claim, retry_at
from dalston_queue.jobs.webhooks.message import Message, TaskRef, encode, headers
from dalston_queue.jobs.webhooks.target import read_target
from dalston_queue.metrics.processes import WEBHOOKS
from dalston_queue.models import Task, WebhookDelivery
from dalston_queue.models.webhook import DeliveryState
from dalston_queue.slots import has_room
from dalston_queue.tracing import export, ids

log = structlog.get_logger(__name__)
MAX_SENDING = 8
POLL_INTERVAL_S = 1.0
RECORD_INTERVAL_S = 15.0
STOP_TIMEOUT_S = 2.0  # for deliveries that are being sent when the process is asked to stop

Outcome = Delivered | NotDelivered
_jitter = SystemRandom().random


@dataclass(frozen=True, slots=True)
class _Lease:
    delivery_id: UUID
    attempts: int
    until: datetime | None  # identifies this claim
    project_id: UUID


@dataclass(slots=True)
class WebhookSender:
    record: Callable[[Mapping[str, int]], None]
    """Called every RECORD_INTERVAL_S with the attempts by outcome since the last call."""
    _sending: "dict[Future[Outcome], _Lease]" = field(default_factory=dict)
    _counted: "Counter[str]" = field(default_factory=Counter)
    _recorded_at: float = float("-inf")

    def run(self, wait: Callable[[float], bool]) -> None:
        """Run until `wait`, which sleeps for so many seconds, returns True."""
        while True:
            try:
                self.send_due()
                self._record()
            except Error as error:
                if not outages.report(error):
                    log.warning("webhooks wait for postgres", error=str(error))
                drop_broken_connection()
                if wait(POLL_INTERVAL_S):
                    break
            if self._sending:
                wait_for(self._sending, timeout=0.2, return_when="FIRST_COMPLETED")
            if wait(0 if self._sending else POLL_INTERVAL_S):
                break
        self._close()

    def send_due(self) -> None:
        """Mark the deliveries that were sent, and send the due ones."""
        for future in [future for future in self._sending if future.done()]:
            self._mark(self._sending[future], future.result(), timezone.now())
            del self._sending[future]
        while len(self._sending) < MAX_SENDING and (delivery := claim(timezone.now(), self._full())) is not None:
            self._sending[self._submit(delivery)] = _lease(delivery)

    def _full(self) -> list[UUID]:
        """Projects that have their share of the slots: receivers that hang may have any number of names."""
        taken = Counter(lease.project_id for lease in self._sending.values())
        return [project for project, own in taken.items() if not has_room(own, taken.total(), MAX_SENDING)]

    def _submit(self, delivery: WebhookDelivery) -> "Future[Outcome]":
        """Reads all that needs Postgres in this thread: the sending thread has no database connection."""
        secret = getattr(delivery.job.project, "webhook_secret", None)
        allowed, timeout_s = allowed_networks(), settings.DALSTON_WEBHOOK_TIMEOUT_S
        try:
            target = read_target(delivery.url, allowed)
        except InvalidCallback as error:
            return _start(partial(NotDelivered, str(error)))
        if secret is None:
            return _start(partial(NotDelivered, "the project has no secret to sign it with"))
        message = message_of(delivery)
        body = encode(message)
        signed = headers(message, body, secret.text, int(time.time()))
        span = ids.webhook(delivery.id, delivery.attempts)
        if below := ids.traceparent(message.trace_id, span):
            signed["traceparent"] = below
        sending = partial(send, target, signed, body, timeout_s=timeout_s, allowed=allowed)
        return _start(partial(_in_its_span, sending, span, message, delivery.attempts))

    def _mark(self, lease: _Lease, outcome: Outcome, now: datetime) -> None:
        crash_points.point("webhook.sent")
        values: dict[str, object] = {"sending_until": None, "last_code": outcome.code}
        if isinstance(outcome, Delivered):
            values |= {"state": DeliveryState.DELIVERED, "delivered_at": now, "last_error": ""}
            result = "delivered"
        elif (at := retry_at(lease.attempts, now, _jitter())) is not None:
            values |= {"next_at": at, "last_error": outcome.why}
            result = "failed"
        else:
            values |= {"state": DeliveryState.GAVE_UP, "last_error": outcome.why}
            result = "gave_up"
            log.warning("gave up a webhook", delivery=str(lease.delivery_id), why=outcome.why)
        self._counted[result] += 1
        WEBHOOKS.labels(result).inc()
        # After its lease another sender may have claimed the delivery, or an operator sent it again: no row matches.
        mine = WebhookDelivery.objects.filter(pk=lease.delivery_id, sending_until=lease.until, state="pending")
        mine.update(**values)

    def _record(self) -> None:
        clock = time.monotonic()
        if clock - self._recorded_at > RECORD_INTERVAL_S:
            self.record(self._counted)
            self._recorded_at, self._counted = clock, Counter()

    def _close(self) -> None:
        wait_for(self._sending, timeout=STOP_TIMEOUT_S)
        try:
            for future, lease in self._sending.items():
                if future.done():
                    self._mark(lease, future.result(), timezone.now())
        except Error as error:
            log.warning("postgres does not answer; the last webhooks will be sent again", error=str(error))
        connection.close()


def _in_its_span(sending: Callable[[], Outcome], span: int, message: Message, attempt: int) -> Outcome:
    began = time.time_ns()
    outcome = sending()
    about: dict[str, str | int] = {"job_id": str(message.job_id), "attempt": attempt}
    if outcome.code is not None:
        about["code"] = outcome.code
    failed = "" if isinstance(outcome, Delivered) else "not_delivered"
    times, parent = (began, time.time_ns()), ids.submit(message.job_id)
    export.record("webhook", message.trace_id, span, parent, times, kind="client", failed=failed, attributes=about)
    return outcome


def _start(attempt: Callable[[], Outcome]) -> "Future[Outcome]":
    future: Future[Outcome] = Future()

    def work() -> None:
        try:
            future.set_result(attempt())
        except BaseException as error:  # noqa: BLE001 (the caller of result() gets it)
            future.set_exception(error)

    threading.Thread(target=work, name="webhook", daemon=True).start()
    return future


def _lease(delivery: WebhookDelivery) -> _Lease:
    return _Lease(delivery.id, delivery.attempts, delivery.sending_until, delivery.project_id)


def message_of(delivery: WebhookDelivery) -> Message:
    job = delivery.job
    tasks = Task.objects.filter(job_id=job.pk).order_by("id").values_list("id", "stage")
    return Message(
        event=f"job.{delivery.status}",
        delivery_id=delivery.id,
        job_id=job.id,
        name=job.name,
        project=job.project.name,
        status=delivery.status,
        error=delivery.error or None,
        created_at=job.created_at,
        completed_at=delivery.finished_at,
        trace_id=job.trace_id,
        tasks=[TaskRef(task_id, stage) for task_id, stage in tasks],
    )

"""Repeated results: whether this very result was accepted before. A worker that lost the answer sends it again.

Redis keeps of an ended attempt only that it ended. Which worker ended it, and how, is in Postgres as soon as an
orchestrator has stored it; until then the answer is 503, and the worker sends the result again.
"""

from __future__ import annotations

import time
from uuid import UUID

from django.db.models import Q

from dalston_queue.api.errors.problems import ApiProblem, Code
from dalston_queue.broker import Broker
from dalston_queue.broker.engine.remote import Hold
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol import messages
from dalston_queue.broker.protocol.types import Cause, RecordState
from dalston_queue.database import before_wait
from dalston_queue.models import TaskEvent

STORE_TIMEOUT_S = 3.0
POLL_S = 0.1


def accepted_before(broker: Broker, worker: EngineBeat, hold: Hold, outcome: messages.Outcome) -> bool:
    """True if this result was accepted before. Raises ApiProblem while that is not known yet."""
    end = time.monotonic() + STORE_TIMEOUT_S
    while True:
        # Redis first: an attempt whose end is stored is in Postgres before it is gone here.
        unstored = any(_ended(broker, queue, hold) for queue in worker.queues)
        if _stored(worker.engine_id, hold, outcome):
            return True
        if not unstored:
            return False
        if time.monotonic() > end:
            detail = "The attempt has ended, and whether by this result is not stored yet. Send it again."
            raise ApiProblem(503, Code.RESULT_PENDING, detail, headers={"Retry-After": "1"})
        before_wait()
        time.sleep(POLL_S)


def _ended(broker: Broker, queue: str, hold: Hold) -> bool:
    record = broker.records(queue, [hold.task_id]).get(hold.task_id)
    return record is not None and (record.state, record.attempt) == (RecordState.SETTLED, hold.attempt)


def _stored(worker_id: str, hold: Hold, outcome: messages.Outcome) -> bool:
    # A retry is written with the attempt that it leads to.
    at_attempt = Q(attempt=hold.attempt) & ~Q(transition="retry") | Q(attempt=hold.attempt + 1, transition="retry")
    ends = Q(transition__in=["complete", "fail", "dead_letter", "cancel", "retry"])
    rows = TaskEvent.objects.filter(at_attempt, ends, task_id=UUID(hold.task_id), engine_id=worker_id)
    return any(_matches(transition, cause, outcome) for transition, cause in rows.values_list("transition", "cause"))


def _matches(transition: str, cause: str, outcome: messages.Outcome) -> bool:
    """Does this result lead to this transition? The scanner ends attempts in the worker's name, too."""
    match outcome:
        case messages.Completed():
            return transition == "complete" or cause == Cause.REJECTED  # a result that could not be kept
        case messages.Cancelled():
            return transition == "cancel"
        case messages.Failed(error):
            return transition != "complete" and cause == error.cause

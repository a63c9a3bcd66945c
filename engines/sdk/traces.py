"""Spans of an engine: `run` around a task, and `settle` from its end to the answer of Redis. Off without OTEL_*."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from dalston_queue.broker import Delivery
from dalston_queue.broker.protocol.types import Settled
from dalston_queue.tracing import spans

from .outcomes import Failed, Outcome, Reject, Retry
from .task import Task


@contextmanager
def traced(task: Task) -> Iterator[spans.Span]:
    """What an author's libraries record meanwhile are children of this span."""
    ids = {"task_id": task.id, "job_id": task.job_id, "queue": task.queue}
    counts = {"attempt": task.attempt, "deliveries": task.deliveries}
    with spans.span("run", task.traceparent, {**ids, **counts}) as span:
        task.traceparent = span.traceparent
        yield span


def note_outcome(span: spans.Span, outcome: Outcome) -> None:
    span.add("outcome", type(outcome).__name__.lower())
    if isinstance(outcome, Failed):
        span.failed(outcome.type)
    elif isinstance(outcome, (Retry, Reject)):
        span.failed(type(outcome).__name__)


class Settlements:
    """When each result that waits for its settlement was there."""

    def __init__(self) -> None:
        self._ended: dict[Delivery, tuple[Task, float]] = {}

    def ended(self, task: Task) -> None:
        if spans.is_on():
            self._ended[task.delivery] = (task, time.time())

    def settled(self, results: Iterable[tuple[Delivery, Settled]]) -> None:
        for delivery, answer in results:
            if found := self._ended.pop(delivery, None):
                task, at = found
                failed = "refused" if answer is Settled.LOST else None
                spans.record("settle", task.traceparent, at, time.time(), {"task_id": task.id}, failed=failed)

    def clear(self) -> None:
        self._ended.clear()

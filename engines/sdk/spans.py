"""Spans of an engine: `run` of a task, and `settle` of its result. dalston_queue/tracing/ has the tree."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import AbstractContextManager

from dalston_queue.broker import Delivery
from dalston_queue.broker.protocol import messages
from dalston_queue.broker.protocol.types import Settled
from dalston_queue.tracing import export, ids

from .outcomes import Done, Outcome
from .task import Task


def in_its_span(task: Task) -> AbstractContextManager[None]:
    """What an author records meanwhile by OpenTelemetry's own API is below this run of the task."""
    return export.current(task.trace_id, ids.run(task.id, task.attempt, task.engine_id))


class Spans:
    def __init__(self, engine_id: str) -> None:
        self.engine_id = engine_id
        self._ended_at: dict[Delivery, float] = {}  # of tasks whose results are not sent yet

    def ended(self, task: Task, outcome: Outcome) -> None:
        if not export.enabled() or not task.trace_id:
            return
        now = time.time()
        if not task.lost:
            self._ended_at[task.delivery] = now
        about: dict[str, str | int] = {**self._about(task.delivery), "task_type": task.task_type}
        parent = ids.wait(task.id, task.attempt, self.engine_id)
        span = ids.run(task.id, task.attempt, self.engine_id)
        times = _ns(task.started_at), _ns(now)
        export.record(
            "run", task.trace_id, span, parent, times, kind="consumer", failed=_failed(task, outcome), attributes=about
        )

    def settled(self, results: Iterable[tuple[Delivery, messages.Outcome]], answers: Iterable[Settled]) -> None:
        if not export.enabled():
            return
        now = time.time()
        for (delivery, _), answer in zip(results, answers, strict=True):
            message = delivery.message
            key = message.task_id, message.attempt, self.engine_id
            times = _ns(self._ended_at.pop(delivery, now)), _ns(now)
            failed = "refused" if answer is Settled.LOST else ""
            export.record(
                "settle", message.trace_id, ids.settle(*key), ids.run(*key), times,
                kind="client", failed=failed, attributes=self._about(delivery),
            )  # fmt: skip

    def dropped(self) -> None:
        """Results that will not be sent."""
        self._ended_at.clear()

    def _about(self, delivery: Delivery) -> dict[str, str | int]:
        message = delivery.message
        return {
            "job_id": message.job_id,
            "task_id": message.task_id,
            "attempt": message.attempt,
            "engine_id": self.engine_id,
            "queue": message.queue,
        }


def _failed(task: Task, outcome: Outcome) -> str:
    """In a word, and of an error nothing else: its message may quote the parameters."""
    if task.lost or task.late:
        return "lost" if task.lost else "timeout"
    return "" if isinstance(outcome, Done) else type(outcome).__name__.lower()


def _ns(seconds: float) -> int:
    return int(seconds * 1_000_000_000)

"""What a task's page reads, as plain values: parameters, results of its parents and its own, and its deliveries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.utils import timezone

from dalston_queue.broker.broker import Broker
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.nodes.logs import node_and_slot
from dalston_queue.broker.protocol.types import RecordState
from dalston_queue.dashboard.parts.black_box import pretty
from dalston_queue.dashboard.parts.words import outcome_tone, outcome_words, progress_of
from dalston_queue.jobs.lifecycle.states import TaskStatus
from dalston_queue.jobs.queries.timeline import Delivery, timeline_of
from dalston_queue.jobs.queries.why import explain, facts_about
from dalston_queue.models import DeadLetter, Task, TaskEvent
from dalston_queue.redis import get_broker

FOLDED = 2_000
"""Characters; what is longer is folded away at first."""


@dataclass(frozen=True, slots=True)
class Content:
    name: str
    text: str
    empty: str = "none"

    @property
    def is_long(self) -> bool:
        return len(self.text) > FOLDED


@dataclass(frozen=True, slots=True)
class DeliveryLine:
    number: int
    delivery: Delivery
    words: str
    tone: str
    node: str  # empty: the engine had no supervisor, and its log is not kept
    slot: str


@dataclass(frozen=True, slots=True)
class TaskView:
    at: datetime
    task: Task
    why: str
    progress: str
    deliveries: tuple[DeliveryLine, ...]  # oldest first, counted from 1
    contents: tuple[Content, ...]
    dead_letters: tuple[tuple[UUID, datetime], ...]
    target: ActionTarget | None  # None: Redis does not answer


Version = tuple[tuple[UUID, str, int], ...]
"""Parameters and results change with a task's state or attempt and never otherwise."""


def read_task(task_id: UUID) -> TaskView | None:
    task = Task.objects.select_related("job").defer("parameters", "result").filter(pk=task_id).first()
    if task is None:
        return None
    now, broker = timezone.now(), get_broker()
    parents = Task.objects.filter(job_id=task.job_id, stage__in=task.after).order_by("id")
    version = tuple(parents.values_list("id", "status", "attempt"))
    dead_letters = DeadLetter.objects.filter(task_id=task_id).order_by("-id").values_list("id", "created_at")
    running = [task] if task.status == TaskStatus.RUNNING else []
    return TaskView(
        at=now,
        task=task,
        why=explain(task, facts_about(task, broker), now).sentence,
        progress=progress_of(running, broker).get(str(task.id), ""),
        deliveries=delivery_lines(task_id),
        contents=_contents(task_id, ((task.id, task.status, task.attempt), *version)),
        dead_letters=tuple(dead_letters[:20]),
        target=_target(task, broker),
    )


def _target(task: Task, broker: Broker) -> ActionTarget | None:
    try:
        return action_target(task, broker)
    except BrokerError:
        return None


def delivery_lines(task_id: UUID) -> tuple[DeliveryLine, ...]:
    found = timeline_of(TaskEvent.objects.filter(task_id=task_id).order_by("id"))
    return tuple(_delivery_line(number, delivery) for number, delivery in enumerate(found, 1))


@lru_cache(maxsize=16)
def _contents(task_id: UUID, version: Version) -> tuple[Content, ...]:
    """Up to a quarter of a megabyte each, so they are read when they may have changed, not each second."""
    task = Task.objects.get(pk=task_id)
    parents = Task.objects.filter(pk__in=[row[0] for row in version[1:]]).order_by("id")
    return (
        Content("Parameters", _text(task.parameters)),
        *(Content(f"Result of {parent.stage}", _text(parent.result), _no_result(parent)) for parent in parents),
        Content("Result", _text(task.result), _no_result(task)),
    )


def _delivery_line(number: int, delivery: Delivery) -> DeliveryLine:
    node, slot = node_and_slot(delivery.engine_id) or ("", "")
    return DeliveryLine(number, delivery, outcome_words(delivery), outcome_tone(delivery), node, slot)


def _no_result(task: Task) -> str:
    return "no result" if task.finished_at else "no result yet"


def _text(value: Any) -> str:
    return "" if value is None or value == {} else pretty(value)


TARGET_FIELDS = ("queue", "task_type", "stage", "job__name", "status", "required", "attempt")
"""The columns that an ActionTarget needs."""
_STATES = {RecordState.RUNNING: "running", RecordState.WAITING: "waiting"}


@dataclass(frozen=True, slots=True)
class ActionTarget:
    """A task as the target of an operator's action, as Redis has it now."""

    task_id: str
    job_id: str
    task_type: str
    job: str
    status: str  # in Postgres, in words
    state: str  # `running`; `waiting`, in a window or in Postgres; or `gone`
    required: bool
    attempt: int
    owner: str
    entry_id: str

    @property
    def is_live(self) -> bool:
        return self.state != "gone"


def action_target(task: Task, broker: Broker) -> ActionTarget:
    """Raises BrokerError."""
    task_id = str(task.id)
    record = broker.records(task.queue, [task_id]).get(task_id)
    in_redis = _STATES.get(record.state) if record and record.attempt == task.attempt else None
    return ActionTarget(
        task_id=task_id,
        job_id=str(task.job_id),
        task_type=task.task_type,
        job=task.job.name,
        status=task.status.replace("_", " "),
        state=in_redis or ("waiting" if task.status == TaskStatus.READY else "gone"),
        required=task.required,
        attempt=task.attempt,
        owner=record.owner if record else "",
        entry_id=record.entry_id if record else "",
    )

"""What the pages of nodes read: the registry; of one node also its commands, its running tasks and its lost ones."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import structlog
from django.db import DatabaseError
from django.utils import timezone

from dalston_queue.broker.broker import Broker
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.nodes.commands import CommandStatus
from dalston_queue.broker.protocol.keys import ENGINE_ID
from dalston_queue.broker.protocol.record import Record
from dalston_queue.broker.protocol.types import EngineState
from dalston_queue.dashboard.nodes.cards import EngineCard, NodeCard, TaskCard, cards
from dalston_queue.health import outages
from dalston_queue.ids import is_uuid
from dalston_queue.jobs.queries.progress import parse_progress
from dalston_queue.models import Node, Task
from dalston_queue.redis import get_broker

log = structlog.get_logger(__name__)

FRESH_S = 0.25
COMMANDS_SHOWN = 15
LOST_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Fleet:
    at: datetime
    nodes: tuple[NodeCard, ...] | None  # None: Redis does not answer


@dataclass(frozen=True, slots=True)
class LostTask:
    """A task that an engine ran when it was judged dead, and its state now."""

    id: str
    job_id: str
    queue: str
    status: str
    engine: str  # that runs it now
    lost_by: str


@dataclass(frozen=True, slots=True)
class NodeView:
    at: datetime
    id: str
    card: NodeCard | None  # None: not in the registry, or Redis does not answer
    known: bool  # Redis answered
    last_seen_at: datetime | None  # from Postgres, for a node that the registry has forgotten
    commands: tuple[CommandStatus, ...]
    lost: tuple[LostTask, ...]


class _Shared:
    """One read of the registry for all pages of a tick."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_at = 0.0
        self._fleet: Fleet | None = None

    def get(self) -> Fleet:
        with self._lock:
            if self._fleet is None or time.monotonic() - self._read_at > FRESH_S:
                self._fleet = Fleet(timezone.now(), _nodes(get_broker()))
                self._read_at = time.monotonic()
            return self._fleet


def _nodes(broker: Broker) -> tuple[NodeCard, ...] | None:
    try:
        return tuple(cards(broker.registry.nodes(), broker.registry.engines(), timezone.now()))
    except BrokerError as error:
        if not outages.report(error):
            log.warning("nodes.redis_unavailable", error=str(error))
        return None


shared = _Shared()


def worker_of(query: Mapping[str, str]) -> str:
    """The engine, or the worker over HTTP, that a query string names; empty if it names none."""
    worker_id = query.get("worker", "")
    return worker_id if re.fullmatch(ENGINE_ID, worker_id) else ""


def read_node(node_id: str) -> NodeView | None:
    """None: no such node is known to Redis or to Postgres."""
    fleet, broker = shared.get(), get_broker()
    card = next((node for node in fleet.nodes or () if node.id == node_id), None)
    seen = None if card is not None else _last_seen(node_id)
    if card is None and seen is None and fleet.nodes is not None:
        return None
    commands: tuple[CommandStatus, ...] = ()
    try:
        commands = tuple(broker.node(node_id).recent(COMMANDS_SHOWN))
        card = None if card is None else _with_records(card, broker)
    except BrokerError as error:
        if not outages.report(error):
            log.warning("nodes.redis_unavailable", error=str(error))
    lost = _lost(card) if card is not None else ()
    return NodeView(fleet.at, node_id, card, fleet.nodes is not None, seen, commands, lost)


def _last_seen(node_id: str) -> datetime | None:
    try:
        return Node.objects.filter(pk=node_id).values_list("last_seen_at", flat=True).first()
    except DatabaseError as error:
        if not outages.report(error):
            log.warning("nodes.postgres_unavailable", error=str(error))
        return None


def _with_records(card: NodeCard, broker: Broker) -> NodeCard:
    """Heartbeats come every few seconds; the records have each task's job and its current progress."""
    by_queue: dict[str, list[str]] = {}
    for task in _running(card.engines):
        by_queue.setdefault(task.queue, []).append(task.id)
    records = {id_: record for queue, ids in by_queue.items() for id_, record in broker.records(queue, ids).items()}
    engines = tuple(replace(engine, tasks=_current(engine, records)) for engine in card.engines)
    return replace(card, engines=engines)


def _running(engines: Iterable[EngineCard]) -> list[TaskCard]:
    return [task for engine in engines for task in engine.tasks if task.queue]


def _current(engine: EngineCard, records: dict[str, Record]) -> tuple[TaskCard, ...]:
    """Without the tasks that ended since the heartbeat; of a dead engine all tasks of its last heartbeat."""
    if engine.state == EngineState.DEAD:
        return engine.tasks
    found = []
    for task in engine.tasks:
        record = records.get(task.id)
        if record is not None and record.owner == engine.id:
            progress = parse_progress(record.progress)
            percent = task.percent if progress.fraction is None else round(100 * progress.fraction)
            job_id = record.job_id if is_uuid(record.job_id) else ""
            found.append(replace(task, job_id=job_id, percent=percent, message=progress.message or task.message))
    return tuple(found)


def _lost(card: NodeCard) -> tuple[LostTask, ...]:
    dead = [engine for engine in card.engines if engine.state == EngineState.DEAD]
    # A heartbeat holds what the engine reports; a query wants real ids.
    lost_by = {task.id: engine.slot for engine in dead for task in engine.tasks if is_uuid(task.id)}
    try:
        rows = Task.objects.filter(pk__in=list(lost_by)[:LOST_SHOWN]).order_by("id")
        fields = rows.values_list("id", "job_id", "queue", "status", "assigned_worker_id")
        return tuple(
            LostTask(str(id_), str(job), queue, status, engine, lost_by[str(id_)])
            for id_, job, queue, status, engine in fields
        )
    except DatabaseError as error:
        if not outages.report(error):
            log.warning("nodes.postgres_unavailable", error=str(error))
        return ()

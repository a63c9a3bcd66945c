"""manage.py why NAME: explains the state of an engine or a task. Exit code 0: all well, 1: not well, 2: no answer."""

from __future__ import annotations

import sys
import uuid
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection
from django.utils import timezone

from dalston_queue.broker import Broker
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.nodes.registry import EngineInfo
from dalston_queue.broker.protocol.types import EngineState, NodeState
from supervisor.cli import make_broker

TROUBLE = (
    "paused",
    "no_engine",
    "no_capable_engine",
    "suspect",
    "redis_unavailable",
)  # codes that call for an operator
GOOD = (EngineState.READY, EngineState.STARTING, EngineState.LOADING)


@dataclass(frozen=True, slots=True)
class Answer:
    """`fine`: nothing to be done."""

    fine: bool
    sentences: list[str]


class Command(BaseCommand):
    help = (
        "Explains an engine (its id, slot, process id or node) or a task (its id). 0: all well, 1: not, 2: no answer."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="an engine, a slot such as demo.0, a node, or the id of a task")

    def handle(self, *_args: Any, **options: Any) -> None:
        name: str = options["name"]
        try:
            answer = why_engine(make_broker(), name) or self.task(name)
        except BrokerError as error:
            raise CommandError(f"Redis can't be asked: {error}", returncode=2) from None
        for sentence in answer.sentences:
            self.stdout.write(sentence)
        sys.exit(0 if answer.fine else 1)

    def task(self, name: str) -> Answer:
        try:
            task_id = uuid.UUID(name)
        except ValueError:
            raise CommandError(f"no engine, slot or node is called {name!r}", returncode=2) from None
        if not apps.is_installed("dalston_queue") or connection.vendor != "postgresql":
            raise CommandError(
                "a task's answer needs the database, and there is none here: ask on a server, or at the dashboard",
                returncode=2,
            )
        try:
            return why_task(make_broker(), task_id)
        except DatabaseError as error:
            raise CommandError(f"the database can't be asked: {error}", returncode=2) from None


def why_task(broker: Broker, task_id: uuid.UUID) -> Answer:
    """The API's explanation of the task, and the state of its engines."""
    from dalston_queue.jobs.queries.why import WhyCode, explain, facts_about  # a node has no database and no jobs

    task = apps.get_model("dalston_queue", "Task").objects.filter(pk=task_id).first()
    if task is None:
        raise CommandError(f"there is no task {task_id}", returncode=2)
    facts = facts_about(task, broker)
    why = explain(task, facts, timezone.now())
    sentences = [f"Task {task_id} ({task.stage}, queue {task.queue}) is {task.status}, attempt {task.attempt}."]
    if task.error:
        sentences.append(f"Its last error ({task.error_cause or 'error'}): {task.error}")
    sentences.append(why.sentence)
    about = [engine.engine_id for engine in facts.engines or ()] if why.code is WhyCode.NO_ENGINE else []
    if why.code in (WhyCode.RUNNING, WhyCode.STOPPING):
        about = [task.assigned_worker_id]
    for engine in about:
        answer = why_engine(broker, engine)
        sentences += answer.sentences if answer else [f"{engine} does not beat any more: its tasks will be reclaimed."]
    return Answer(task.status == "completed" if why.code is WhyCode.OVER else why.code not in TROUBLE, sentences)


def why_engine(broker: Broker, name: str) -> Answer | None:
    """By engine, slot (demo.0), process (node.demo.0.boot) or node. None if the name is unknown."""
    nodes = {node.node_id: node for node in broker.registry.nodes()}
    found = [engine for engine in broker.registry.engines() if _is(engine, name)]
    if not found:
        return None
    fine, sentences = True, []
    for engine in sorted(found, key=lambda engine: engine.engine_id):
        why = engine.info.get("why") or ""
        sentences.append(f"{engine.engine_id} is {engine.state}{f': {why}' if why else ''}.")
        if engine.info.get("last_exit"):
            sentences.append(
                f"  Its {engine.info['exits']} earlier processes ended; the last: {engine.info['last_exit']}."
            )
        node = nodes.get(engine.node_id)
        if node is not None and node.state is not NodeState.ACTIVE:
            sentences.append(f"  Its node {node.node_id} is {node.state}: {node.info.get('why') or 'no reason given'}.")
        fine = fine and engine.state in GOOD and (node is None or node.state is NodeState.ACTIVE)
    return Answer(fine, sentences)


def _is(engine: EngineInfo, name: str) -> bool:
    slot = str(engine.info.get("slot", ""))
    return name in (engine.engine_id, slot, slot.partition(".")[0], engine.node_id)

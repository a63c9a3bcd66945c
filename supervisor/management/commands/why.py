"""manage.py why NAME: why an engine or a task is as it is. Exit code 0: all well, 1: not well, 2: no answer."""

from __future__ import annotations

import sys
import uuid
from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection
from django.utils import timezone

from dalston_queue.broker import Broker
from dalston_queue.broker.errors import BrokerError
from supervisor.broker import make_broker
from supervisor.why import Answer, why_engine

TROUBLE = ("paused", "no_engine", "no_capable_engine", "suspect", "redis_unavailable")  # codes that call for somebody


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
    """What the API says of it, and of the engines that it is about."""
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
        sentences += answer.sentences if answer else [f"{engine} does not beat any more: its work will be taken back."]
    return Answer(task.status == "completed" if why.code is WhyCode.OVER else why.code not in TROUBLE, sentences)

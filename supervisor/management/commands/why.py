"""manage.py why NAME: why an engine or a task is as it is. Exit code 0: all well, 1: not well, 2: no answer."""

from __future__ import annotations

import sys
import uuid
from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection

from dalston_queue.broker.errors import BrokerError
from supervisor.broker import make_broker
from supervisor.why import Answer, why_engine, why_task

FIELDS = (
    "status", "stage", "queue", "attempt", "error", "error_cause", "after", "scheduled_at", "required_capabilities",
)  # fmt: skip


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
            row = apps.get_model("dalston_queue", "Task").objects.filter(pk=task_id).values(*FIELDS).first()
        except DatabaseError as error:
            raise CommandError(f"the database can't be asked: {error}", returncode=2) from None
        if row is None:
            raise CommandError(f"there is no task {task_id}", returncode=2)
        return why_task(make_broker(), str(task_id), row)

"""`manage.py runorchestrator`: one orchestrator, until SIGTERM or Ctrl-C. Run as many as you like."""

import os
import signal
import socket
import threading
from types import FrameType
from typing import Any

import structlog
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from dalston_queue.broker import EventReader
from dalston_queue.ids import uuid7
from dalston_queue.orchestrator.loop import Orchestrator
from dalston_queue.redis import get_broker
from dalston_site import notify

log = structlog.get_logger(__name__)


class Command(BaseCommand):
    help = "Consume events, move jobs on, dispatch tasks. Any number may run."

    def handle(self, *_args: Any, **_options: Any) -> None:
        if connection.vendor != "postgresql":
            raise CommandError("the orchestrator needs Postgres: set DATABASE_URL")
        name = f"{socket.gethostname()}.{os.getpid()}.{uuid7().hex[-8:]}"
        stop = threading.Event()

        def request_stop(_signum: int, _frame: FrameType | None) -> None:
            stop.set()

        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, request_stop)
        reader = EventReader(get_broker(), name)

        def ready() -> None:
            log.info("orchestrator ready", name=name)
            notify.ready()

        Orchestrator(reader, stop.is_set, ready).run()
        log.info("orchestrator stopped", name=name)

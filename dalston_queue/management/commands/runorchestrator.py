"""`manage.py runorchestrator`: one orchestrator, until SIGTERM or Ctrl-C. Run as many as you like."""

import os
import signal
import socket
import threading
from argparse import ArgumentParser, ArgumentTypeError
from types import FrameType
from typing import Any

import structlog
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from prometheus_client import start_http_server

from dalston_queue import metrics
from dalston_queue.broker import EventReader
from dalston_queue.broker.types import Role
from dalston_queue.ids import uuid7
from dalston_queue.orchestrator.leadership import Leadership
from dalston_queue.orchestrator.loop import Orchestrator
from dalston_queue.orchestrator.recovery import Recovery
from dalston_queue.redis import get_broker
from dalston_site import notify

log = structlog.get_logger(__name__)


class Command(BaseCommand):
    help = "Consume events, move jobs on, dispatch tasks, recover the work of the dead. Any number may run; one leads."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--metrics", type=_address, metavar="ADDRESS:PORT", help="serve /metrics there")

    def handle(self, *_args: Any, **options: Any) -> None:
        if connection.vendor != "postgresql":
            raise CommandError("the orchestrator needs Postgres: set DATABASE_URL")
        name = f"{socket.gethostname()}.{os.getpid()}.{uuid7().hex[-8:]}"
        stop = threading.Event()

        def request_stop(_signum: int, _frame: FrameType | None) -> None:
            stop.set()

        def ready() -> None:
            log.info("orchestrator ready", name=name)
            notify.ready()

        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, request_stop)
        if options["metrics"]:
            self._serve_metrics(*options["metrics"])
        broker = get_broker()
        recovery = Recovery(broker, Leadership(Role.ORCHESTRATOR, name))
        thread = threading.Thread(target=recovery.run, args=(stop.wait,), name="recovery")
        thread.start()
        try:
            Orchestrator(EventReader(broker, name), stop.is_set, ready).run()
        finally:
            stop.set()
            thread.join()
        log.info("orchestrator stopped", name=name)

    def _serve_metrics(self, address: str, port: int) -> None:
        metrics.register()
        try:
            start_http_server(port, address)
        except OSError as error:
            raise CommandError(f"can't serve metrics on {address}:{port}: {error}") from None


def _address(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    if not port.isdecimal():
        raise ArgumentTypeError(f"{text!r} is not ADDRESS:PORT, for instance 127.0.0.1:9433")
    return address or "127.0.0.1", int(port)

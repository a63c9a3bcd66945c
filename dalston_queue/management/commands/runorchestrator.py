"""`manage.py runorchestrator`: one orchestrator, until SIGTERM or Ctrl-C. Run as many as you like."""

import signal
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
from dalston_queue.orchestrator.leadership import Leadership, process_name
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
        name = process_name()
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
        recovery = _RecoveryThread(Recovery(broker, Leadership(Role.ORCHESTRATOR, name)), stop)
        recovery.start()
        try:
            Orchestrator(EventReader(broker, name), stop.is_set, ready).run()
        finally:
            stop.set()
            recovery.join()
        if recovery.failed:
            raise CommandError("the recovery thread failed; see the log. Start the orchestrator again.")
        log.info("orchestrator stopped", name=name)

    def _serve_metrics(self, address: str, port: int) -> None:
        metrics.register()
        try:
            start_http_server(port, address)
        except OSError as error:
            raise CommandError(f"can't serve metrics on {address}:{port}: {error}") from None


class _RecoveryThread(threading.Thread):
    """Takes the whole process down if it fails: an orchestrator that looks healthy and recovers nobody is worse."""

    def __init__(self, recovery: Recovery, stop: threading.Event) -> None:
        super().__init__(name="recovery")
        self._recovery = recovery
        self._stop_all = stop
        self.failed = False

    def run(self) -> None:
        try:
            self._recovery.run(self._stop_all.wait)
        except Exception:
            log.exception("recovery failed")
            self.failed = True
            self._stop_all.set()


def _address(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    if not port.isdecimal():
        raise ArgumentTypeError(f"{text!r} is not ADDRESS:PORT, for instance 127.0.0.1:9433")
    return address or "127.0.0.1", int(port)

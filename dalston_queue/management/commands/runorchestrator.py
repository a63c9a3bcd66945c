"""`manage.py runorchestrator`: one orchestrator, until SIGTERM or Ctrl-C. Run as many as you like."""

import signal
import threading
from argparse import ArgumentParser, ArgumentTypeError
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import Any

import structlog
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.utils import timezone
from prometheus_client import REGISTRY

from dalston_queue.alerts import evaluate
from dalston_queue.alerts.notify import watch_due
from dalston_queue.broker import EventReader
from dalston_queue.broker.protocol.types import Role
from dalston_queue.garbage import freeze_imports
from dalston_queue.health import watchdog
from dalston_queue.health.loops import Loop
from dalston_queue.health.report import Health
from dalston_queue.health.servers import health_of, wait_for_migrations
from dalston_queue.jobs.webhooks.sender import RECORD_INTERVAL_S, WebhookSender
from dalston_queue.metrics import collector
from dalston_queue.metrics.server import ProcessServer, health_routes, metrics_of, parse_address
from dalston_queue.orchestrator.duties.report import Report, record_run
from dalston_queue.orchestrator.leadership import Leadership, process_name
from dalston_queue.orchestrator.loop import Orchestrator
from dalston_queue.orchestrator.recovery import Recovery
from dalston_queue.redis import get_broker
from dalston_queue.tracing import export
from dalston_site import notify

log = structlog.get_logger(__name__)


class Command(BaseCommand):
    help = "Consume events, advance jobs, dispatch tasks, recover tasks of dead engines. Any number may run; one leads."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--metrics",
            type=_address,
            default=settings.DALSTON_METRICS_ADDRESS or None,  # argparse would refuse an empty text
            metavar="ADDRESS:PORT",
            help="serve /metrics, /healthz and /readyz there (default: DALSTON_METRICS_ADDRESS)",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        if connection.vendor != "postgresql":
            raise CommandError("the orchestrator needs Postgres: set DATABASE_URL")
        name = process_name()
        export.configure("orchestrator")
        stop = threading.Event()

        def request_stop(_signum: int, _frame: FrameType | None) -> None:
            stop.set()

        def ready() -> None:
            log.info("orchestrator ready", name=name)
            notify.ready()

        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, request_stop)
        broker = get_broker()
        main = Orchestrator(EventReader(broker, name), stop.is_set, ready)
        beside = [
            _Thread("recovery", Recovery(broker, Leadership(Role.ORCHESTRATOR, name)).run, stop),
            _Thread("alerts", partial(evaluate.watch, evaluate.run, name), stop),
            _Thread("notifications", partial(watch_due, name), stop),
            _Thread("webhooks", WebhookSender(partial(_record_webhooks, name)).run, stop),
        ]
        loops = [main.loop, *(thread.loop for thread in beside)]
        health = health_of(
            "orchestrator", loops, applies_events=True, stopping=lambda: "is stopping" if stop.is_set() else ""
        )
        if options["metrics"]:
            self._serve(options["metrics"], health)
        watchdog.start(health)
        # Started beside the migrations, as by Kubernetes: alive, not ready, and without a query of tables to come.
        wait_for_migrations(partial(_rest, loops, stop))
        if not stop.is_set():
            self._run(main, beside, stop)
        log.info("orchestrator stopped", name=name)

    def _run(self, main: Orchestrator, beside: Sequence["_Thread"], stop: threading.Event) -> None:
        freeze_imports()
        for thread in beside:
            thread.start()
        try:
            main.run()
        finally:
            stop.set()
            for thread in beside:
                thread.join()
        for thread in beside:
            if thread.failed:
                raise CommandError(f"the {thread.name} thread failed; see the log. Start the orchestrator again.")

    def _serve(self, address: str, health: Health) -> None:
        collector.register()
        try:
            ProcessServer(parse_address(address), {"/metrics": metrics_of(REGISTRY), **health_routes(health)})
        except OSError as error:
            raise CommandError(f"can't serve metrics on {address}: {error}") from None


class _Thread(threading.Thread):
    """A thread whose failure stops the process: an orchestrator that seems healthy and recovers nothing is worse."""

    def __init__(self, name: str, work: Callable[[Callable[[float], bool]], None], stop: threading.Event) -> None:
        super().__init__(name=name)
        self.loop = Loop(name)
        self._work = work
        self._stop_all = stop
        self.failed = False

    def run(self) -> None:
        try:
            self._work(self.loop.resting(self._stop_all.wait))
        except Exception:
            log.exception("a thread failed", thread=self.name)
            self.failed = True
            self._stop_all.set()


def _rest(loops: Sequence[Loop], stop: threading.Event, seconds: float) -> bool:
    for loop in loops:
        loop.mark(seconds)
    return stop.wait(seconds)


def _address(text: str) -> str:
    try:
        parse_address(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None
    return text


def _record_webhooks(holder: str, found: Mapping[str, int]) -> None:
    report = Report(found=Counter(found))
    record_run("webhook sender", timezone.now(), 0, report, every_s=RECORD_INTERVAL_S, holder=holder)

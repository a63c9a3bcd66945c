"""The periodic task that huey runs, and a timer for intervals below its minute. Huey finds this file by its name
(`manage.py run_huey`)."""

import threading

import structlog
from django.conf import settings
from django.db import Error
from django.utils import timezone
from huey import crontab
from huey.contrib.djhuey import HUEY, db_periodic_task

from dalston_queue.alerts import evaluate, notify
from dalston_queue.broker.errors import BrokerError
from dalston_queue.health import outages
from dalston_queue.orchestrator.duties.run import run_due_duties
from dalston_queue.orchestrator.leadership import process_name

log = structlog.get_logger(__name__)

MINUTE_S = 60.0


@db_periodic_task(crontab())  # type: ignore[untyped-decorator]  # huey has no types
def housekeeping() -> None:
    """Each minute: the stale scanner and every other duty that is due, then the alerts and their notifications. Of
    several huey processes one leads.

    Without a server the duties wait for the next run.
    """
    try:
        run_due_duties()
        evaluate.run(timezone.now(), process_name())
        notify.run(timezone.now(), process_name())
    except (BrokerError, Error) as error:
        if not outages.report(error):
            log.warning("housekeeping could not run", error=str(error).strip())


class Timer:
    """Runs housekeeping more often than once a minute, if an interval in the settings is shorter. Huey's schedule knows
    minutes only."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def interval_s(self) -> float:
        return min(settings.DALSTON_SCAN_INTERVAL_S, settings.DALSTON_PROMOTE_INTERVAL_S)

    def start(self) -> None:
        """Each worker thread of huey calls it; there is one timer."""
        if self._thread is None and self.interval_s < MINUTE_S:
            self._thread = threading.Thread(target=self._run, name="timer", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self.interval_s):
            if HUEY.pending_count() == 0:  # a slow duty must not leave a row of calls behind it
                housekeeping()


timer = Timer()
HUEY.on_startup(name="timer")(timer.start)
HUEY.on_shutdown(name="timer")(timer.stop)

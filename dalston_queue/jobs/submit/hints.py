"""Hints of new jobs to the orchestrators: `job.created`. Only hints: pending jobs are polled each second as well.

In the web process one thread sends them: no request waits for Redis, and the jobs of a busy moment go in one call.
Elsewhere they are sent at once: a command may end right after it.
"""

import threading
import time
from collections.abc import Iterable, Sequence
from queue import Empty, SimpleQueue
from uuid import UUID

import structlog

from dalston_queue.broker.errors import BrokerError
from dalston_queue.health import outages
from dalston_queue.metrics.processes import DISPATCH_FAILURES
from dalston_queue.redis import get_broker, is_web_process

log = structlog.get_logger(__name__)

PAUSE_S = 0.01
"""Pause after each call, to collect the next hints. A single hint is sent at once."""
MAX_HINTS = 1000
"""Hints in one call."""


def send(job_ids: Sequence[UUID]) -> None:
    if is_web_process():
        _sender.send(job_ids)
    else:
        _publish(job_ids)


class Sender:
    """One thread, from the first hint to the end of the process."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[UUID] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def send(self, job_ids: Iterable[UUID]) -> None:
        for job_id in job_ids:
            self._waiting.put(job_id)
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="hints", daemon=True)
                    self._thread.start()

    def _run(self) -> None:
        while True:
            job_ids = self._take()
            try:
                _publish(job_ids)
            except Exception:
                log.exception("hints were not sent; the jobs will be found by polling")
            time.sleep(PAUSE_S)

    def _take(self) -> list[UUID]:
        taken = [self._waiting.get()]
        try:
            while len(taken) < MAX_HINTS:
                taken.append(self._waiting.get_nowait())
        except Empty:
            pass
        return taken


def _publish(job_ids: Sequence[UUID]) -> None:
    try:
        get_broker().publish_jobs_created(str(job_id) for job_id in job_ids)
    except BrokerError as error:
        DISPATCH_FAILURES.labels("hint").inc()
        if not outages.report(error):
            what = "the hint job.created was not sent; the jobs will be found by polling"
            log.warning(what, jobs=len(job_ids), error=str(error))


_sender = Sender()

"""A worker's poll: tasks that the worker owns and did not name, then new tasks, then a wait for new ones.

A waiting poll holds a thread of the web process and a connection to Redis, but none to Postgres; a setting limits how
many may wait. It sleeps on the same wake-up tokens as engines do, and polls Redis each second as well.

Nothing is claimed for a worker that has closed its connection. Tasks that were claimed in that very moment are
released; so are tasks that were claimed for a token that was revoked while its poll waited.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from django.conf import settings

from dalston_queue.api.errors.problems import ApiProblem, Code
from dalston_queue.api.subscriptions.waiting import Slots
from dalston_queue.broker.engine.remote import Hold, RemoteTask, RemoteWorker, Renewal
from dalston_queue.database import release_connection

RECHECK_S = 1.0
POLL_SLOTS = Slots(settings.DALSTON_MAX_WAITING_POLLS)


def poll(
    worker: RemoteWorker,
    named: Sequence[Hold],
    wanted: int | None,
    wait: float,
    gone: Callable[[], bool] = lambda: False,
    check_token: Callable[[], None] = lambda: None,
) -> tuple[Renewal, list[RemoteTask]]:
    """How it stands with what was named, with what is given again; and what was claimed. `check_token` raises
    ApiProblem; it is asked only after a wait, before something is given away."""
    began = time.monotonic()
    renewal, claimed = _poll(worker, named, wanted, wait, gone)
    if claimed and gone():
        worker.release(claimed)
        return renewal, []
    if claimed and time.monotonic() - began > RECHECK_S:
        try:
            check_token()
        except ApiProblem:
            worker.release(claimed)
            raise
    return renewal, claimed


def _poll(
    worker: RemoteWorker, named: Sequence[Hold], wanted: int | None, wait: float, gone: Callable[[], bool]
) -> tuple[Renewal, list[RemoteTask]]:
    end = time.monotonic() + wait
    room = worker.engine.capacity if wanted is None else wanted
    release_connection()  # Postgres is done with, while we speak to Redis and wait
    worker.start_poll()
    renewal, claimed = _try(worker, named, room)
    if renewal.missing or claimed or wait <= 0:
        return renewal, claimed
    look_at = time.monotonic() + RECHECK_S
    with POLL_SLOTS.take() as free:
        if not free:
            raise _too_many()
        while (left := end - time.monotonic()) > 0 and not (renewal.missing or claimed):
            drained = worker.should_drain
            woken = worker.wait(left)
            # The worker has died, has given this poll up and sent another, or must hear that it should drain. One that
            # has heard it and polls all the same waits as if there were no task: it must not run in circles.
            if gone() or not worker.is_newest_poll() or (worker.should_drain and not drained):
                worker.wake_another()
                break
            if woken:
                claimed = worker.claim(room, renewal)
                # Others may get there first again and again: by the clock it looks and beats all the same.
                if claimed or time.monotonic() < look_at:
                    continue
            if not renewal.count:
                worker.beat()  # it has nothing to lose, so the waiting itself is its heartbeat
            renewal, claimed = _try(worker, named, room)
            look_at = time.monotonic() + RECHECK_S
    return renewal, claimed


def _try(worker: RemoteWorker, named: Sequence[Hold], room: int) -> tuple[Renewal, list[RemoteTask]]:
    renewal = worker.renew(named, find_missing=True)
    return renewal, worker.claim(room - len(renewal.missing), renewal)


def _too_many() -> ApiProblem:
    detail = f"This web process lets {POLL_SLOTS.limit} polls wait, and as many do. Nothing was claimed; poll again."
    return ApiProblem(503, Code.TOO_MANY_POLLS, detail, headers={"Retry-After": "2"})

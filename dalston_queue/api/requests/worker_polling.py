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
from dalston_queue.broker.engine.remote import Hold, RemoteTask, RemoteWorker, Renewal
from dalston_queue.database import before_wait
from dalston_queue.slots import Slots

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
    """The state of the named tasks, with those that were missing; and the claimed tasks. `check_token` raises
    ApiProblem; it runs only after a wait, before claimed tasks are delivered."""
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
    before_wait()  # not needed while the poll uses Redis and waits
    worker.start_poll()
    renewal, claimed = _try(worker, named, room)
    if renewal.missing or claimed or wait <= 0:
        return renewal, claimed
    recheck_at = time.monotonic() + RECHECK_S
    with POLL_SLOTS.take() as free:
        if not free:
            raise _too_many()
        while (left := end - time.monotonic()) > 0 and not (renewal.missing or claimed):
            drained = worker.should_drain
            woken = worker.wait(left)
            # The worker has died, has sent another poll, or must learn that it should drain. A worker that knows it and
            # polls all the same waits as if there were no task: otherwise it would poll in a busy loop.
            if gone() or not worker.is_newest_poll() or (worker.should_drain and not drained):
                worker.wake_another()
                break
            if woken:
                claimed = worker.claim(room, renewal)
                # Other engines may claim first each time: after RECHECK_S the poll renews and beats all the same.
                if claimed or time.monotonic() < recheck_at:
                    continue
            if not renewal.count:
                worker.beat()  # without tasks it has nothing to lose, so the waiting is its heartbeat
            renewal, claimed = _try(worker, named, room)
            recheck_at = time.monotonic() + RECHECK_S
    return renewal, claimed


def _try(worker: RemoteWorker, named: Sequence[Hold], room: int) -> tuple[Renewal, list[RemoteTask]]:
    renewal = worker.renew(named, find_missing=True)
    return renewal, worker.claim(room - len(renewal.missing), renewal)


def _too_many() -> ApiProblem:
    detail = f"All {POLL_SLOTS.limit} slots for waiting polls are taken. Nothing was claimed; poll again."
    return ApiProblem(503, Code.TOO_MANY_POLLS, detail, headers={"Retry-After": "2"})

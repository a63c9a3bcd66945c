"""/internal/workers: the worker protocol over HTTP, for engines in any language. docs/worker-protocol.md explains it.

The Redis scripts are those of an engine: fenced by a session, judged dead by the same judge. All state is in Redis,
so any web process serves any call.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

import structlog
from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest
from ninja import Body, Router, Status

from dalston_queue.api.auth.bearer import check_still_valid, needs
from dalston_queue.api.auth.principal import Principal, principal_of
from dalston_queue.api.errors.problems import ApiProblem, Code, answers
from dalston_queue.api.requests import body
from dalston_queue.api.requests.worker_polling import poll
from dalston_queue.api.requests.worker_results import accepted_before
from dalston_queue.api.schemas.workers import (
    MAX_WAIT_S,
    HeartbeatIn,
    HeartbeatOut,
    HoldIn,
    LeaveOut,
    PollIn,
    PollOut,
    ProgressIn,
    RegisterIn,
    RegisterOut,
    ResultIn,
    ResultOut,
    TaskStateOut,
    Wait,
    WorkerId,
    holds_out,
    task_out,
)
from dalston_queue.api.subscriptions.waiting import disconnection
from dalston_queue.broker.engine.remote import NODE, Hold, RemoteWorker
from dalston_queue.broker.errors import Fenced
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol import messages
from dalston_queue.broker.protocol.types import Cause, EngineState, Settled
from dalston_queue.models.accounts import Scope
from dalston_queue.redis import breaker_rules, get_broker

log = structlog.get_logger(__name__)
router = Router(tags=["workers"])
WORKERS = "/internal/workers"
WORKER = f"{WORKERS}/{{worker_id}}"
# For a worker whose polls do not wait: a task waits at most a second for a free worker, and an idle worker costs four
# to six round trips to Redis a second (ADR 0015). A poll that waits gets its task sooner.
POLL_INTERVAL_MS = 1000


@router.post(f"{WORKERS}/register", auth=needs(Scope.WORKER), response=answers({201: RegisterOut}, 400, 413))
def register_worker(request: HttpRequest, worker: Annotated[RegisterIn, Body()]) -> Status[RegisterOut]:
    """Register a worker: once per process, and again after a 404 or a 409 `worker_lost`."""
    worker_id = f"{NODE}.{worker.name}.{secrets.token_hex(8)}"
    info = {
        "engine": worker.name,
        "version": worker.version,
        "owner": _owner(principal_of(request)),
        "running": 0,
        "started_at_ms": int(time.time() * 1000),
    }
    engine = EngineBeat(
        engine_id=worker_id,
        state=EngineState.READY,
        queues=tuple(dict.fromkeys(worker.stages)),
        capabilities=tuple(dict.fromkeys(worker.capabilities)),
        capacity=worker.capacity,
        info=info,
    )
    RemoteWorker.register(get_broker(), engine)
    answer = RegisterOut(
        worker_id=worker_id,
        heartbeat_seconds=settings.DALSTON_HEARTBEAT_S,
        heartbeat_interval_ms=round(1000 * settings.DALSTON_HEARTBEAT_S),
        poll_interval_ms=POLL_INTERVAL_MS,
        dead_after_seconds=settings.DALSTON_DEAD_AFTER_S,
        max_wait_seconds=MAX_WAIT_S,
    )
    return Status(201, answer)


@router.post(f"{WORKER}/poll", auth=needs(Scope.WORKER), response=answers({200: PollOut}, 400, 404, 409, 413))
def poll_tasks(request: HttpRequest, worker_id: WorkerId, wanted: Annotated[PollIn, Body()], wait: Wait = 0) -> PollOut:
    """Claim and start tasks. Tasks that the worker has and does not name in `held` are delivered again. One poll at a
    time."""
    with _worker(request, worker_id) as worker, disconnection(request) as gone:
        named, room = [each.hold for each in wanted.held], wanted.available_capacity
        worker.beat_named(named)  # a draining worker may still ask for tasks that it lost
        renewal, claimed = poll(worker, named, room, wait, gone, partial(_check_token, request))
        if claimed:  # `why` and the pages count by the last heartbeat, and the next call may be seconds away
            worker.beat_with(worker.engine.state, renewal.shown + [task.shown for task in claimed])
    return PollOut(
        tasks=[task_out(task, worker_id, again=True) for task in renewal.missing]
        + [task_out(task, worker_id, again=False) for task in claimed],
        should_drain=worker.should_drain,
        cancelled=holds_out(renewal.cancelled),
        lost=holds_out(renewal.lost),
    )


@router.post(f"{WORKER}/heartbeat", auth=needs(Scope.WORKER), response=answers({200: HeartbeatOut}, 400, 404, 409, 413))
def worker_heartbeat(request: HttpRequest, worker_id: WorkerId, report: Annotated[HeartbeatIn, Body()]) -> HeartbeatOut:
    """Report that the worker is alive and which tasks it has; the answer names cancelled and lost ones."""
    with _worker(request, worker_id) as worker:
        renewal = worker.renew([each.hold for each in report.held], find_missing=True)
        worker.beat_with(report.status.state, renewal.shown)
    return HeartbeatOut(
        should_drain=worker.should_drain,
        cancelled=holds_out(renewal.cancelled),
        lost=holds_out(renewal.lost),
        missing=holds_out([task.hold for task in renewal.missing]),
    )


@router.post(f"{WORKER}/start", auth=needs(Scope.WORKER), response=answers({200: TaskStateOut}, 400, 404, 409, 413))
def confirm_start(request: HttpRequest, worker_id: WorkerId, held: Annotated[HoldIn, Body()]) -> TaskStateOut:
    """Check that the worker still has a task before the work begins. 409 `task_lost`: drop it."""
    return _renew(request, worker_id, held.hold, None)


@router.post(f"{WORKER}/progress", auth=needs(Scope.WORKER), response=answers({200: TaskStateOut}, 400, 404, 409, 413))
def report_progress(request: HttpRequest, worker_id: WorkerId, report: Annotated[ProgressIn, Body()]) -> TaskStateOut:
    """Report a task's progress. 409 `task_lost`: stop it, its result will be refused."""
    return _renew(request, worker_id, report.hold, {"fraction": report.fraction, "message": report.message})


@router.post(f"{WORKER}/result", auth=needs(Scope.WORKER), response=answers({200: ResultOut}, 400, 404, 409, 413))
def report_result(request: HttpRequest, worker_id: WorkerId, report: Annotated[ResultIn, Body()]) -> ResultOut:
    """End a task. Safe to repeat: the first result counts. 409 `task_lost`: another worker has it, or it
    timed out."""
    outcome, hold = report.outcome(), report.hold
    _check_size(outcome)
    worker = _find(request, worker_id)
    refusal: ApiProblem | None = None
    try:
        worker.resume()
        if worker.settle(hold, outcome) is Settled.LOST:
            refusal = _lost(hold)
            worker.beat()
        else:
            worker.ended(hold)
            _count(worker, outcome)
    except Fenced:
        refusal = _fenced(worker_id)
    if refusal and not accepted_before(get_broker(), worker.engine, hold, outcome):
        raise refusal
    return ResultOut(task_id=report.task_id, attempt=report.attempt, status=report.status)


@router.delete(WORKER, auth=needs(Scope.WORKER), response=answers({200: LeaveOut}, 404, 409))
def deregister_worker(request: HttpRequest, worker_id: WorkerId) -> LeaveOut:
    """Leave: tasks that the worker still has are released, next in their queue and uncounted."""
    with _worker(request, worker_id) as worker:
        return LeaveOut(requeued=holds_out(worker.leave()))


@contextmanager
def _worker(request: HttpRequest, worker_id: str) -> Iterator[RemoteWorker]:
    """The worker of this token, its sessions resumed. A worker that was judged dead has none: 409."""
    worker = _find(request, worker_id)
    try:
        worker.resume()
        yield worker
    except Fenced:
        raise _fenced(worker_id) from None
    finally:
        worker.close()


def _find(request: HttpRequest, worker_id: str) -> RemoteWorker:
    worker = RemoteWorker.find(get_broker(), worker_id, breaker_rules())
    if worker is None or worker.engine.info.get("owner") != _owner(principal_of(request)):
        detail = f"This token has no worker {worker_id}: another token registered it, or Redis lost it. Register again."
        raise ApiProblem(404, Code.NOT_FOUND, detail)
    return worker


def _renew(request: HttpRequest, worker_id: str, hold: Hold, progress: Any) -> TaskStateOut:
    with _worker(request, worker_id) as worker:
        renewal = worker.renew([hold], find_missing=False, progress={hold: progress})
        worker.beat()
    if renewal.lost:
        raise _lost(hold)
    return TaskStateOut(cancel_requested=bool(renewal.cancelled))


def _count(worker: RemoteWorker, outcome: messages.Outcome) -> None:
    """For its circuit breaker. A rejected task is no failure of the worker, and a cancelled one says nothing."""
    if isinstance(outcome, messages.Cancelled):
        return
    succeeded = isinstance(outcome, messages.Completed) or outcome.error.cause is Cause.REJECTED
    if worker.record(succeeded):
        log.warning("worker_breaker", worker_id=worker.engine.engine_id, open=worker.breaker.is_open)


def _owner(principal: Principal) -> str:
    """Only tokens have the scope `worker`, so there is one."""
    return str(principal.token.pk) if principal.token else ""


def _check_token(request: HttpRequest) -> None:
    token = principal_of(request).token
    try:
        if token is not None:
            check_still_valid(token)
    except DatabaseError as error:  # unknown: the token was valid when the poll came
        log.warning("api.token_not_checked", error=str(error))


def _check_size(outcome: messages.Outcome) -> None:
    limit: int = settings.DALSTON_MAX_RESULT_BYTES
    if isinstance(outcome, messages.Completed) and len(outcome.result) > limit:
        raise body.too_large("result", limit)


def _lost(hold: Hold) -> ApiProblem:
    detail = (
        f"Task {hold.task_id} at attempt {hold.attempt} is not this worker's any more: it timed out, was delivered "
        "to another worker, or is over. Drop it; its result is refused."
    )
    return ApiProblem(409, Code.TASK_LOST, detail)


def _fenced(worker_id: str) -> ApiProblem:
    detail = f"{worker_id} was judged dead, and its tasks were reclaimed. Drop them and register again."
    return ApiProblem(409, Code.WORKER_LOST, detail)

"""Refuses submissions to a queue that is too full, in three steps, each stricter than the one before.

    waiting above               accepted
    BACKPRESSURE_WAITING        high priority, or a token with the preset `listed`
    BACKPRESSURE_HIGH_ONLY      high priority
    BACKPRESSURE_LISTED_ONLY    high priority of a token with the preset `listed`

If Redis does not answer, what waits is not known, and everything is accepted: submissions are stored in Postgres and
flow when Redis is back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.conf import settings

from dalston_queue.api.auth.depths import depths
from dalston_queue.api.auth.principal import Principal
from dalston_queue.api.errors.problems import ApiProblem, Code
from dalston_queue.broker.protocol.types import Priority
from dalston_queue.jobs.lifecycle.dag import queue_of
from dalston_queue.jobs.submit.spec import JobSpec
from dalston_queue.models.api_token import RatePreset


@dataclass(frozen=True, slots=True)
class Steps:
    waiting: int
    high_only: int
    listed_only: int


def is_accepted(waiting: int, priority: Priority, steps: Steps, *, listed: bool) -> bool:
    high = priority is Priority.HIGH
    if waiting > steps.listed_only:
        return high and listed
    if waiting > steps.high_only:
        return high
    return waiting <= steps.waiting or high or listed


def check_depth(spec: JobSpec, principal: Principal) -> None:
    """Raises 429 if a queue of this job is too full for it."""
    refused = next(_too_full(spec, principal), None)
    if refused is None:
        return
    queue, waiting = refused
    seconds = depths.seconds_until(queue, waiting - _steps().waiting)
    detail = f"{waiting} tasks wait in the queue {queue}: it takes no more of this priority. Try again in {seconds} s."
    raise ApiProblem(429, Code.QUEUE_FULL, detail, headers={"Retry-After": str(seconds)})


def _too_full(spec: JobSpec, principal: Principal) -> Iterator[tuple[str, int]]:
    listed = principal.token is not None and principal.token.rate_preset == RatePreset.LISTED
    for stage in spec.stages:
        waiting = depths.waiting(queue_of(stage))
        if waiting is not None and not is_accepted(waiting, stage.priority or spec.priority, _steps(), listed=listed):
            yield queue_of(stage), waiting


def _steps() -> Steps:
    return Steps(
        settings.DALSTON_BACKPRESSURE_WAITING,
        settings.DALSTON_BACKPRESSURE_HIGH_ONLY,
        settings.DALSTON_BACKPRESSURE_LISTED_ONLY,
    )

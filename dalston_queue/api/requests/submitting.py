"""Accepts one job of a request whose token may be only known."""

from __future__ import annotations

from django.http import HttpRequest

from dalston_queue.api.auth.backpressure import check_depth
from dalston_queue.api.auth.principal import Principal, confirmed, principal_of
from dalston_queue.jobs.errors import TokenChanged
from dalston_queue.jobs.submit.spec import JobSpec
from dalston_queue.jobs.submit.submit import Submission, submit


def accept(request: HttpRequest, spec: JobSpec, key: str | None) -> Submission:
    try:
        return _accept(principal_of(request), spec, key)
    except TokenChanged:
        return _accept(confirmed(request), spec, key)


def _accept(principal: Principal, spec: JobSpec, key: str | None) -> Submission:
    check_depth(spec, principal)
    return submit(
        spec, project=principal.project(), token=principal.token, idempotency_key=key, version=principal.version
    )

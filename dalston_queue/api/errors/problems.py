"""RFC 9457 problem documents: the one shape of every error of the API.

`code` is stable and meant for programs, `detail` is a sentence for people, `trace_id` finds the request in the logs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Schema

MEDIA_TYPE = "application/problem+json"
OPENAI = "X-Stainless-Lang"
"""The header by which OpenAI's clients tell themselves apart."""


class Code(StrEnum):
    """Stable names of errors. A test compares them with docs/api.md."""

    UNAUTHENTICATED = "unauthenticated"
    TOKEN_INVALID = "token_invalid"  # noqa: S105
    TOKEN_EXPIRED = "token_expired"  # noqa: S105
    TOKEN_REVOKED = "token_revoked"  # noqa: S105
    CSRF_FAILED = "csrf_failed"
    SCOPE_MISSING = "scope_missing"
    ROUTE_CLOSED = "route_closed"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    MALFORMED_BODY = "malformed_body"
    INVALID = "invalid"
    SEARCH_TOO_WIDE = "search_too_wide"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    STATE_CONFLICT = "state_conflict"
    WORKER_LOST = "worker_lost"
    TASK_LOST = "task_lost"
    RATE_LIMITED = "rate_limited"
    QUEUE_FULL = "queue_full"
    DATABASE_UNAVAILABLE = "database_unavailable"
    REDIS_UNAVAILABLE = "redis_unavailable"
    STREAMS_FULL = "streams_full"
    BODIES_FULL = "bodies_full"
    NODE_UNREACHABLE = "node_unreachable"
    TOO_MANY_POLLS = "too_many_polls"
    RESULT_PENDING = "result_pending"
    UPLOAD_BROKEN = "upload_broken"
    TOO_MANY_UPLOADS = "too_many_uploads"
    STORAGE_FULL = "storage_full"
    STORE_UNAVAILABLE = "store_unavailable"
    AUDIO_REJECTED = "audio_rejected"
    TRANSCRIPTION_FAILED = "transcription_failed"
    STILL_RUNNING = "still_running"
    RANGE_REFUSED = "range_refused"
    REQUEST_REFUSED = "request_refused"
    INTERNAL = "internal"


TITLES: Mapping[Code, str] = {
    Code.UNAUTHENTICATED: "Authentication is needed",
    Code.TOKEN_INVALID: "The token is not valid",
    Code.TOKEN_EXPIRED: "The token has expired",
    Code.TOKEN_REVOKED: "The token was revoked",
    Code.CSRF_FAILED: "The CSRF check failed",
    Code.SCOPE_MISSING: "A scope is missing",
    Code.ROUTE_CLOSED: "This route is closed",
    Code.NOT_FOUND: "Not found",
    Code.METHOD_NOT_ALLOWED: "Method not allowed",
    Code.MALFORMED_BODY: "The body is not valid JSON",
    Code.INVALID: "The request is not valid",
    Code.SEARCH_TOO_WIDE: "The search is too wide",
    Code.PAYLOAD_TOO_LARGE: "The payload is too large",
    Code.IDEMPOTENCY_CONFLICT: "The idempotency key was used for another request",
    Code.STATE_CONFLICT: "The state does not allow this",
    Code.WORKER_LOST: "The worker was judged dead",
    Code.TASK_LOST: "The task is not this worker's",
    Code.RATE_LIMITED: "Too many requests",
    Code.QUEUE_FULL: "The queue is full",
    Code.DATABASE_UNAVAILABLE: "The database does not answer",
    Code.REDIS_UNAVAILABLE: "Redis does not answer",
    Code.STREAMS_FULL: "Too many event streams",
    Code.BODIES_FULL: "Too many large requests",
    Code.NODE_UNREACHABLE: "The node does not answer",
    Code.TOO_MANY_POLLS: "Too many polls are waiting",
    Code.RESULT_PENDING: "The result is not stored yet",
    Code.UPLOAD_BROKEN: "The upload broke off",
    Code.TOO_MANY_UPLOADS: "Too many uploads",
    Code.STORAGE_FULL: "The storage is full",
    Code.STORE_UNAVAILABLE: "The artifact store does not answer",
    Code.AUDIO_REJECTED: "The recording can't be transcribed",
    Code.TRANSCRIPTION_FAILED: "The transcription failed",
    Code.STILL_RUNNING: "It is not over yet",
    Code.RANGE_REFUSED: "There is no such range",
    Code.REQUEST_REFUSED: "The request was refused",
    Code.INTERNAL: "Internal error",
}


class ApiProblem(Exception):
    """Raised anywhere below a route; becomes the response."""

    def __init__(
        self,
        status: int,
        code: Code,
        detail: str,
        *,
        errors: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = list(errors)
        self.headers = dict(headers or {})


def not_found(what: str) -> ApiProblem:
    """The same answer for a missing row and for a row of another project."""
    return ApiProblem(404, Code.NOT_FOUND, f"There is no {what}, or it belongs to another project.")


def respond(request: HttpRequest, problem: ApiProblem) -> HttpResponse:
    document: dict[str, Any] = {
        "type": f"urn:dalston:problem:{problem.code}",
        "title": TITLES[problem.code],
        "status": problem.status,
        "detail": problem.detail,
        "code": problem.code,
        "instance": request.path,
        "trace_id": getattr(request, "trace_id", None),
    }
    if problem.errors:
        document["errors"] = problem.errors
    if OPENAI in request.headers:  # the only part that they show to people
        document["error"] = {"message": problem.detail, "type": problem.code, "code": problem.code, "param": None}
    return HttpResponse(json.dumps(document), status=problem.status, content_type=MEDIA_TYPE, headers=problem.headers)


class FieldError(Schema):
    field: str
    message: str
    kind: str


class ProblemOut(Schema):
    type: str
    title: str
    status: int
    detail: str
    code: Code
    instance: str
    trace_id: str | None
    errors: list[FieldError] | None = None


def answers(success: dict[int, Any], *refusals: int) -> dict[int, Any]:
    """The documented answers of a route: its own, and problem documents."""
    return {**success, **dict.fromkeys([401, 403, *refusals, 422, 429, 503], ProblemOut)}

"""Middleware: a trace id for every request, and problem documents instead of error pages under /api/.

django-ninja handles what happens inside a route. What happens around it (no such route, wrong method, a refused host,
an exception in other middleware) would otherwise be answered with HTML that no API client can read.

A trace id has 32 hex digits as in W3C Trace Context; a request, its log lines, its job and its messages share it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponse

from dalston_queue.api.errors.problems import MEDIA_TYPE, ApiProblem, Code, respond
from dalston_queue.tracing import ids
from dalston_queue.tracing.caller import calling


def new_trace_id() -> str:
    return secrets.token_hex(16)


def trace_id_of(request: HttpRequest) -> str:
    return getattr(request, "trace_id", None) or new_trace_id()


PREFIXES = ("/api/", "/v1/")

_AROUND_ROUTES: dict[int, tuple[Code, str]] = {
    400: (
        Code.REQUEST_REFUSED,
        "The server refused the request before it reached the API: check the host and headers.",
    ),
    403: (Code.REQUEST_REFUSED, "The server refused the request before it reached the API."),
    404: (Code.NOT_FOUND, "There is no such route; /api/v1/docs lists them all."),
    405: (Code.METHOD_NOT_ALLOWED, "This route does not take that method; the Allow header lists the ones it takes."),
    413: (Code.PAYLOAD_TOO_LARGE, "The request body is too large."),
}
_OTHERWISE = (Code.INTERNAL, "Something went wrong on our side. The trace id finds it in the server's log.")


class TraceMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        caller = ids.parse(request.headers.get("traceparent", ""))  # its own trace, so that its logs and ours join
        trace_id = caller[0] if caller else new_trace_id()
        request.trace_id = trace_id  # type: ignore[attr-defined]
        request.encoding = "utf-8"  # a charset of the client's choice may be a codec that can't decode text
        with structlog.contextvars.bound_contextvars(trace_id=trace_id), calling(caller):
            response = self.get_response(request)
            if request.path.startswith(PREFIXES) and response.status_code >= 400:
                response = _as_problem(request, response)
        response["X-Trace-Id"] = trace_id
        return response


def _as_problem(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    if response.get("Content-Type", "").startswith((MEDIA_TYPE, "application/json")):
        return response
    code, detail = _AROUND_ROUTES.get(response.status_code, _OTHERWISE)
    answer = respond(request, ApiProblem(response.status_code, code, detail))
    if "Allow" in response:
        answer["Allow"] = response["Allow"]
    if hasattr(response, "_has_been_logged"):  # Django's mark; without it the same error is logged twice
        answer._has_been_logged = True  # type: ignore[attr-defined]  # noqa: SLF001
    return answer

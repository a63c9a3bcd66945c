"""Middleware of the pages: CSP, allowed hosts, URLs without NUL, and the page 503 while Postgres does not answer."""

from __future__ import annotations

import re
from collections.abc import Callable

import structlog
from django.conf import settings
from django.core.exceptions import BadRequest
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.middleware.common import CommonMiddleware
from django.template.loader import render_to_string

from dalston_queue.health import outages

log = structlog.get_logger(__name__)

_SOURCES = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",  # the icons inside Swagger's and the admin's style sheets
    "font-src": "'self'",
    "media-src": "'self'",
    "connect-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}
POLICY = "; ".join(f"{kind} {sources}" for kind, sources in _SOURCES.items())


class ContentSecurityPolicyMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response


class HostMiddleware(CommonMiddleware):
    """Django's check of the Host header, but for what load balancers and Prometheus ask for by an IP address: no answer
    of theirs contains a URL."""

    def process_request(self, request: HttpRequest) -> HttpResponsePermanentRedirect | None:
        if any(re.match(path, request.path.lstrip("/")) for path in settings.SECURE_REDIRECT_EXEMPT):
            return None
        return super().process_request(request)


class NulMiddleware:
    """Refuses NUL characters in the URLs of pages: Postgres stores none, and a search for one is an error. The API
    names the parameter itself."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if "\x00" in request.path:
            raise Http404
        if "%00" in request.META.get("QUERY_STRING", "") and not request.path.startswith("/api/"):
            raise BadRequest("NUL in a query")
        return self.get_response(request)


class UnavailableMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, OperationalError | InterfaceError):
            return None
        if not outages.report(exception):
            log.warning("pages.database_unavailable", path=request.path, error=str(exception))
        # Without the request: its context processors would read the user from Postgres.
        return HttpResponse(render_to_string("503.html"), status=503, headers={"Retry-After": "5"})

"""Says so when Postgres does not answer, instead of "something went wrong". The API says it in its own way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

log = structlog.get_logger(__name__)

TRY_AGAIN_LATER = 1013
"""A close code of WebSockets."""


class UnavailableMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, OperationalError | InterfaceError):
            return None
        log.warning("pages.database_unavailable", path=request.path, error=str(exception))
        # Without the request: its context processors would ask Postgres who is logged in.
        return HttpResponse(render_to_string("503.html"), status=503, headers={"Retry-After": "5"})


class UnavailableSocket:
    """Around WebSockets, whose login is looked up in Postgres. A page whose socket is refused tries again by itself."""

    def __init__(self, application: Callable[..., Awaitable[Any]]) -> None:
        self.application = application

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        try:
            await self.application(scope, receive, send)
        except (OperationalError, InterfaceError) as error:
            log.warning("sockets.database_unavailable", path=scope["path"], error=str(error))
            await send({"type": "websocket.close", "code": TRY_AGAIN_LATER})

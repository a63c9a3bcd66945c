"""Origins of WebSockets: the scheme, host and port of the page must be those of the request.

Cookies know no port, and a browser sends them with every WebSocket, so another service on the same host could read the
dashboard with a visitor's login. Channels' own check compares host names only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

import structlog
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http.request import split_domain_port, validate_host
from django.utils.http import is_same_domain

from dalston_queue.health import outages

log = structlog.get_logger(__name__)

TRY_AGAIN_LATER = 1013
"""A close code of WebSockets."""
Scope = Mapping[str, Any]
Application = Callable[[Scope, Any, Any], Awaitable[Any]]
_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}


class SameOrigin:
    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> Any:
        headers = {name: value.decode("latin-1") for name, value in scope.get("headers", [])}
        if allowed(headers.get(b"origin", ""), headers.get(b"host", ""), str(scope.get("scheme", "ws"))):
            return await self.application(scope, receive, send)
        return await WebsocketDenier()(scope, receive, send)


def allowed(origin: str, host: str, scheme: str) -> bool:
    """`scheme`: of the request, ws or wss, as reported by the proxy."""
    parsed = _parsed(origin)
    if parsed is None or not validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS):
        return False
    if any(_matches(parsed, pattern) for pattern in settings.CSRF_TRUSTED_ORIGINS):
        return True
    ours = _parsed(f"{scheme}://{host}")
    if ours is None or (parsed.hostname, _port(parsed)) != (ours.hostname, _port(ours, parsed.scheme)):
        return False
    # A page that came unencrypted may be an attacker's, so it must not connect to us over TLS.
    return parsed.scheme == "https" or scheme == "ws"


def _parsed(address: str) -> SplitResult | None:
    try:
        parsed = urlsplit(address.lower())
        return parsed if parsed.hostname and parsed.scheme in _PORTS and _port(parsed) else None
    except ValueError:  # a port that is no number
        return None


def _port(parsed: SplitResult, scheme: str = "") -> int:
    """Without one, the usual one of `scheme`: a proxy that ends TLS leaves it out of Host as the browser does."""
    return parsed.port or _PORTS[scheme or parsed.scheme]


def _matches(origin: SplitResult, pattern: str) -> bool:
    """As Django reads CSRF_TRUSTED_ORIGINS: exactly, or `https://*.example.com` for every host below."""
    trusted = _parsed(pattern.replace("://*.", "://."))
    if trusted is None or (trusted.scheme, _port(trusted)) != (origin.scheme, _port(origin)):
        return False
    return is_same_domain(origin.hostname or "", trusted.hostname or "")


class UnavailableSocket:
    """Refuses WebSockets while Postgres, which has their logins, does not answer. The page tries again by itself."""

    def __init__(self, application: Callable[..., Awaitable[Any]]) -> None:
        self.application = application

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        try:
            await self.application(scope, receive, send)
        except (OperationalError, InterfaceError) as error:
            if not outages.report(error):
                log.warning("sockets.database_unavailable", path=scope["path"], error=str(error))
            await send({"type": "websocket.close", "code": TRY_AGAIN_LATER})

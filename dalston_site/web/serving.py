"""The web process around Django: /healthz and /readyz, answered by the event loop, and a server that says it is about
to stop before it does.

The two answers need no thread of a request and no Django: they come while all threads wait, by any name or address of
this machine, and over plain HTTP. A process whose event loop stands still gives none. Nor do they need a turn: instead
each address has a pace, so that a pipeline of them leaves the event loop to the requests of others.
"""

from __future__ import annotations

import asyncio
import math
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from types import FrameType
from typing import Any

import uvicorn

from dalston_queue.garbage import freeze_imports
from dalston_queue.health import watchdog
from dalston_queue.health.report import KIND, OK, Findings, Health, Probe, failed
from dalston_site import notify
from dalston_site.web.pace import Pace
from engines.sdk.notify import notify as sdk_notify

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Application = Callable[[Mapping[str, Any], Receive, Send], Awaitable[None]]

NO_FREE_THREAD_S = 2.0
HEALTH_EVERY_S = 0.02
"""Between two answers about health to one address."""

_stops_at = math.inf


def stopping() -> str:
    return "is stopping" if _stops_at < math.inf else ""


class Server(uvicorn.Server):
    """After a signal it serves for `drain_s` more, so that a load balancer that asks /readyz has sent its requests
    elsewhere when the port closes. A second signal ends that time."""

    def __init__(self, config: uvicorn.Config, drain_s: float) -> None:
        super().__init__(config)
        self._drain_s = drain_s
        self._watchdog_s = watchdog.interval_s()
        self._watchdog_at = time.monotonic() + self._watchdog_s

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        global _stops_at  # noqa: PLW0603 - of the process
        first = not stopping()
        _stops_at = min(_stops_at, time.monotonic() + self._drain_s)
        if not first or self._drain_s <= 0:
            super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        freeze_imports()
        if self.started:
            notify.ready()

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second."""
        if time.monotonic() >= self._watchdog_at:
            sdk_notify("WATCHDOG=1", timeout_s=0.0)
            self._watchdog_at = time.monotonic() + self._watchdog_s
        return await super().on_tick(counter) or time.monotonic() >= _stops_at


class HealthRoutes:
    """Answers /healthz and /readyz; everything else goes on to `application`."""

    def __init__(self, health: Health, application: Application) -> None:
        self._health = health
        self._application = application
        self._pace = Pace(HEALTH_EVERY_S)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="readyz")  # the second who asks gets the same answer

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path not in ("/healthz", "/readyz"):
            await self._application(scope, receive, send)
            return
        if (wait_s := self._pace.wait_s((scope.get("client") or ("",))[0], time.monotonic())) > 0:
            await asyncio.sleep(wait_s)
        headers = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
        if scope["method"] not in ("GET", "HEAD"):
            code, body = HTTPStatus.METHOD_NOT_ALLOWED, b""
            headers.append((b"allow", b"GET, HEAD"))
        elif path == "/healthz":
            code, body = self._health.healthz()
        else:
            code, body = await asyncio.get_running_loop().run_in_executor(self._thread, self._health.readyz)
        headers += [(b"content-type", KIND.encode()), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": body if scope["method"] == "GET" else b""})


def free_thread(threads: ThreadPoolExecutor) -> Probe:
    """Fails if no thread is free for a request."""

    def ask() -> Findings:
        try:
            threads.submit(lambda: None).result(NO_FREE_THREAD_S)
        except TimeoutError:
            return {"threads": failed(f"none was free for {NO_FREE_THREAD_S:.0f} s")}
        return {"threads": OK}

    return Probe(("threads",), ask)

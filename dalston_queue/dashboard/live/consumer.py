"""The WebSocket of every live page, one per viewer. It only sends; a poll per tick serves all viewers of a page.

live("ws/jobs/<uuid:job_id>/", job_fragments, by_role=True)

job_fragments(job_id=…, may_operate=…) -> its fragments, rendered once per tick -> what changed, to each viewer
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from typing import Any, Protocol

import structlog
from channels.auth import get_user
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import DatabaseError
from django.urls import URLPattern, path, re_path

from dalston_queue.accounts.roles import may_operate
from dalston_queue.dashboard.live.fragments import Fragment, LivePage
from dalston_queue.dashboard.parts.request import known_fields
from dalston_queue.dashboard.security.sockets import TRY_AGAIN_LATER
from dalston_queue.health import outages
from dalston_queue.metrics.processes import VIEWERS
from dalston_queue.polling import Source, updates
from dalston_queue.slots import Slots

log = structlog.get_logger(__name__)

SIGNED_OUT = 4401
"""Close code: the page asks for a login instead of reconnecting."""
GONE = 4404
"""Close code: the job, or what else the page shows, was deleted while the page was open."""
OTHER_ROLE = 4403
"""Close code: the user's role changed. The page reloads, because the role decides which buttons the page has."""
OPEN_PAGES = Slots(1000)
"""Open pages of a web process; at most half of what is free for one person."""
RECHECK_S = 30.0
"""How long a socket may outlive its login."""


class Feed(Source, Protocol):
    def since(self, seen: int) -> tuple[list[str], int]:
        """The messages after this version, and the version that they lead to."""


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    def __init__(self, make: Callable[..., Feed], fields: tuple[str, ...] = (), by_role: bool = False) -> None:
        """make: called with the names in the URL, `query` if there are fields, and `may_operate` if by_role."""
        super().__init__()
        self.make, self.fields, self.by_role = make, fields, by_role
        self.may_operate = False
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._open = ExitStack()

    async def connect(self) -> None:
        # Accepted first: a refusal during the handshake reaches the page without a close code.
        await self.accept()
        if not self.scope["user"].is_authenticated:
            await self.close(code=SIGNED_OUT)
            return
        self.may_operate = await database_sync_to_async(may_operate)(self.scope["user"])
        if not self._open.enter_context(OPEN_PAGES.take(f"user {self.scope['user'].pk}")):
            await self.close(code=TRY_AGAIN_LATER)
            return
        VIEWERS.inc()
        self._tasks = (asyncio.create_task(self._push()), asyncio.create_task(self._watch_login()))

    async def disconnect(self, code: int) -> None:
        if self._tasks:
            VIEWERS.dec()
        for task in self._tasks:
            task.cancel()
        self._open.close()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Ignores what browsers send."""

    def arguments(self) -> dict[str, Any]:
        found = dict(self.scope["url_route"]["kwargs"])
        if self.fields:
            found["query"] = known_fields(self.scope["query_string"].decode("latin-1"), self.fields)
        if self.by_role:
            found["may_operate"] = self.may_operate
        return found

    def key(self) -> Hashable:
        """Viewers with the same key share one poll. Roles are part of it where rows have buttons."""
        return self.make, repr(self.arguments())

    async def _push(self) -> None:
        holder = f"user {self.scope['user'].pk}"
        polls, seen = updates(self.key(), partial(self.make, **self.arguments()), holder), 0
        try:
            async for feed in polls:
                messages, seen = feed.since(seen)
                for message in messages:
                    await self.send(text_data=message)
            await self.close(code=GONE)
        except (OSError, RuntimeError) as error:
            # The browser is gone and the close has not reached us yet.
            log.info("dashboard.push_ended", error=repr(error))
        finally:
            await polls.aclose()

    async def _watch_login(self) -> None:
        """Closes the socket after a logout, an expired session or a changed password. After a change of role, too: the
        page reloads and gets what the new role may see."""
        store: Any = import_module(settings.SESSION_ENGINE)
        while True:
            await asyncio.sleep(RECHECK_S)
            session = store.SessionStore(self.scope["session"].session_key)
            try:
                user = await get_user({**self.scope, "session": session})
                operates = await database_sync_to_async(may_operate)(user)
            except DatabaseError as error:
                # Unknown is no reason to close: the page greys by itself, and the next check decides.
                if not outages.report(error):
                    log.warning("dashboard.login_not_checked", error=str(error))
                continue
            if not user.is_authenticated:
                await self.close(code=SIGNED_OUT)
                return
            if operates != self.may_operate:
                await self.close(code=OTHER_ROLE)
                return


def live(
    url: str, fragments: Callable[..., list[Fragment]], fields: tuple[str, ...] = (), by_role: bool = False
) -> URLPattern:
    """The WebSocket of a page. fields: what its query string may name. by_role: operators get other fragments."""

    def make(**arguments: Any) -> Feed:
        return LivePage(partial(fragments, **arguments))

    return live_feed(url, make, fields, by_role)


def live_feed(url: str, make: Callable[..., Feed], fields: tuple[str, ...] = (), by_role: bool = False) -> URLPattern:
    consumer: Any = LiveConsumer.as_asgi(make=make, fields=fields, by_role=by_role)
    pattern: URLPattern = re_path(url, consumer) if url.startswith("^") else path(url, consumer)
    return pattern

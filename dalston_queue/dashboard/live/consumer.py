"""The WebSocket of every live page: one viewer. It only sends, and what it sends is polled once for all viewers.

live("ws/jobs/<uuid:job_id>/", job_fragments, by_role=True)

job_fragments(job_id=…, may_operate=…) -> its fragments, rendered once per tick -> what changed, to each viewer
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
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
from dalston_queue.dashboard.parts.request import asked
from dalston_queue.polling import Source, updates

log = structlog.get_logger(__name__)

SIGNED_OUT = 4401
"""Our close code for "log in again": the page says so instead of trying to reconnect."""
GONE = 4404
"""Likewise for "this does not exist any more": a job that was deleted while its page was open."""
OTHER_ROLE = 4403
"""The page reloads: the parts around the live ones have buttons, too."""
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
        self._jobs: tuple[asyncio.Task[None], ...] = ()

    async def connect(self) -> None:
        # Accepted first: a refusal during the handshake reaches the page without a code that it could explain.
        await self.accept()
        if not self.scope["user"].is_authenticated:
            await self.close(code=SIGNED_OUT)
            return
        self.may_operate = await database_sync_to_async(may_operate)(self.scope["user"])
        self._jobs = (asyncio.create_task(self._push()), asyncio.create_task(self._watch_login()))

    async def disconnect(self, code: int) -> None:
        for job in self._jobs:
            job.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Ignores what browsers send."""

    def arguments(self) -> dict[str, Any]:
        found = dict(self.scope["url_route"]["kwargs"])
        if self.fields:
            found["query"] = asked(self.scope["query_string"], self.fields)
        if self.by_role:
            found["may_operate"] = self.may_operate
        return found

    def key(self) -> Hashable:
        """Viewers with the same key share one poll. Roles are part of it where rows have buttons."""
        return self.make, repr(self.arguments())

    async def _push(self) -> None:
        polls, seen = updates(self.key(), partial(self.make, **self.arguments())), 0
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
        """A logout, an expired session or a changed password ends the socket too. So does another role, with a code
        after which the page reloads: then it gets what the new role may see."""
        store: Any = import_module(settings.SESSION_ENGINE)
        while True:
            await asyncio.sleep(RECHECK_S)
            session = store.SessionStore(self.scope["session"].session_key)
            try:
                user = await get_user({**self.scope, "session": session})
                operates = await database_sync_to_async(may_operate)(user)
            except DatabaseError as error:
                # Not known is no verdict: the page greys by itself, and the next check decides.
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

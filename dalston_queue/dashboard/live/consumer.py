"""One viewer's WebSocket. It only ever sends; what it sends comes from the hub that all viewers of the page share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from importlib import import_module
from typing import Any

import structlog
from channels.auth import get_user
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import DatabaseError

from dalston_queue.accounts.roles import may_operate
from dalston_queue.dashboard.live.hub import Hub

log = structlog.get_logger(__name__)

SIGNED_OUT = 4401
"""Our close code for "log in again": the page says so instead of trying to reconnect."""
GONE = 4404
"""Likewise for "this is no more": a job whose time was over while somebody looked at it."""
OTHER_ROLE = 4403
"""The page loads itself anew: what stands around the live parts has buttons, too."""
RECHECK_S = 30.0
"""How long a socket may outlive its login."""


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    operates = False
    """Whether its viewer may act: rows then have buttons, so such pages have a hub of their own."""
    _jobs: tuple[asyncio.Task[None], ...] = ()

    def hub(self) -> Hub:
        raise NotImplementedError

    def messages(self) -> AsyncGenerator[str, None]:
        return self.hub().follow()

    async def connect(self) -> None:
        # Accepted first: a refusal during the handshake reaches the page without a code that it could explain.
        await self.accept()
        if not self.scope["user"].is_authenticated:
            await self.close(code=SIGNED_OUT)
            return
        self.operates = await database_sync_to_async(may_operate)(self.scope["user"])
        self._jobs = (asyncio.create_task(self._push()), asyncio.create_task(self._watch_login()))

    async def disconnect(self, code: int) -> None:
        for job in self._jobs:
            job.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Viewers have nothing to say here."""

    async def _push(self) -> None:
        messages = self.messages()
        try:
            async for message in messages:
                await self.send(text_data=message)
            await self.close(code=GONE)
        except (OSError, RuntimeError) as error:
            # The browser is gone and the close has not reached us yet.
            log.info("dashboard.push_ended", error=repr(error))
        finally:
            await messages.aclose()

    async def _watch_login(self) -> None:
        """A logout, an expired session or a changed password ends the socket too. So does another role, with a code
        after which the page loads itself anew: then it gets what the new role may see."""
        store: Any = import_module(settings.SESSION_ENGINE)
        while True:
            await asyncio.sleep(RECHECK_S)
            session = store.SessionStore(self.scope["session"].session_key)
            try:
                user = await get_user({**self.scope, "session": session})
                operates = await database_sync_to_async(may_operate)(user)
            except DatabaseError as error:
                # Not known is no verdict: the page greys by itself, and the next look decides.
                log.warning("dashboard.login_not_checked", error=str(error))
                continue
            if not user.is_authenticated:
                await self.close(code=SIGNED_OUT)
                return
            if operates != self.operates:
                await self.close(code=OTHER_ROLE)
                return

"""A page's WebSocket lives no longer than the login and the role it was opened with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.auth import AuthMiddlewareStack
from channels.exceptions import StopConsumer
from channels.routing import URLRouter
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection, connections
from django.test import Client

from dalston_queue.accounts.roles import Role
from dalston_queue.broker import Broker
from dalston_queue.dashboard.live import consumer
from dalston_queue.dashboard.urls import websocket_urlpatterns
from tests.dashboard.people import give_role, person
from tests.support import WAIT_TIMEOUT_S, wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.keeps_keys]


@pytest.fixture
def olga(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> User:
    monkeypatch.setattr(consumer, "RECHECK_S", 0.1)
    return person("olga", Role.OPERATOR)


def ending(user: User, change: Callable[[], Any]) -> int:
    """The close code of this user's socket after the change."""
    client = Client()
    client.force_login(user)
    cookie = f"sessionid={client.cookies['sessionid'].value}".encode()

    async def follow() -> int:
        application = AuthMiddlewareStack(URLRouter(websocket_urlpatterns))
        scope = {
            "type": "websocket",
            "path": "/ws/queues/echo/",
            "query_string": b"",
            "headers": [(b"cookie", cookie)],
        }
        socket: Any = ApplicationCommunicator(application, scope)  # type: ignore[no-untyped-call]
        await socket.send_input({"type": "websocket.connect"})
        assert (await socket.receive_output(timeout=WAIT_TIMEOUT_S))["type"] == "websocket.accept"
        assert (await socket.receive_output(timeout=WAIT_TIMEOUT_S))["type"] == "websocket.send"
        await asyncio.to_thread(_in_thread, change)
        while True:
            message = await socket.receive_output(timeout=WAIT_TIMEOUT_S)
            if message["type"] == "websocket.close":
                await socket.send_input({"type": "websocket.disconnect", "code": message["code"]})
                await socket.wait(timeout=WAIT_TIMEOUT_S)
                return int(message["code"])

    return asyncio.run(follow())


def _in_thread(change: Callable[[], Any]) -> None:
    try:
        change()
    finally:
        connections.close_all()


def test_another_role_makes_the_page_load_itself_anew(olga: User) -> None:
    assert ending(olga, lambda: give_role(olga, Role.VIEWER)) == consumer.OTHER_ROLE


def test_a_database_that_fails_at_a_recheck_does_not_end_the_watch(
    olga: User, caplog: pytest.LogCaptureFixture
) -> None:
    def away_for_a_moment() -> None:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE django_session RENAME TO session_away")
            try:
                wait_until(lambda: "dashboard.login_not_checked" in caplog.text)
            finally:
                cursor.execute("ALTER TABLE session_away RENAME TO django_session")
        Session.objects.all().delete()

    assert ending(olga, away_for_a_moment) == consumer.SIGNED_OUT


def test_the_end_of_the_session_is_the_end_of_the_socket(olga: User) -> None:
    assert ending(olga, Session.objects.all().delete) == consumer.SIGNED_OUT


@pytest.mark.parametrize("page", ["dead-letters", "audit", "queues/echo", "jobs"])
def test_a_name_that_a_page_does_not_know_makes_no_poll_of_its_own(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[Hashable] = []

    async def keep_key(self: consumer.LiveConsumer) -> None:
        keys.append(self.key())
        raise StopConsumer

    monkeypatch.setattr(consumer.LiveConsumer, "connect", keep_key)

    async def ask(query: bytes) -> None:
        scope = {"type": "websocket", "path": f"/ws/{page}/", "query_string": query, "headers": []}
        socket: Any = ApplicationCommunicator(URLRouter(websocket_urlpatterns), scope)  # type: ignore[no-untyped-call]
        await socket.send_input({"type": "websocket.connect"})
        await socket.wait(timeout=WAIT_TIMEOUT_S)

    for query in (b"since=2026-11-16&task=x", b"x=1&since=2026-11-16&task=x", b""):
        asyncio.run(ask(query))
    known, with_more, other = keys
    assert known == with_more
    assert known != other

"""WebSockets of live pages: what is refused is closed, and what a page sends costs no other client time."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from bench.attacks import Target
from tests.abuse.sockets import Raw, quick
from tests.web import Web

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("line", ["Content-Length: 5", "X: " + "a" * 9000], ids=["a body", "a long line"])
def test_a_handshake_that_is_refused_is_answered_and_closed(web: Web, line: str) -> None:
    client = Raw(web)
    head = Target(web.port, "", "none", "", "").handshake("/ws/overview/", "none")
    client.send(head.replace(b"\r\n\r\n", f"\r\n{line}\r\n\r\n".encode()))
    assert client.whole_answer().startswith(b"HTTP/1.1 4")
    client.close()


def test_a_message_to_a_live_page_is_ignored_whatever_it_holds(web: Web) -> None:
    with web.log_in(User.objects.create_user("vera")) as browser:
        session = browser.cookies["sessionid"]
    client = Raw(web)
    client.send(Target(web.port, "", session, "", "").handshake("/ws/overview/", session))
    assert client.answer().startswith(b"HTTP/1.1 101")
    client.send(bytes([0x81, 0x82]) + b"\0\0\0\0\xff\xfe")
    assert b"<" in client.answer(), "fragments come on"
    client.close()
    assert "Traceback" not in web.process.output


@pytest.mark.parametrize("opcode", [1, 9], ids=["messages", "pings"])
def test_a_live_page_that_sends_without_end_is_closed_and_holds_no_client_up(web: Web, opcode: int) -> None:
    with web.log_in(User.objects.create_user("vera")) as browser:
        session = browser.cookies["sessionid"]
    attacker = Raw(web)
    attacker.send(Target(web.port, "", session, "", "").handshake("/ws/overview/", session))
    assert attacker.answer().startswith(b"HTTP/1.1 101")
    frames = (bytes([0x80 | opcode, 0x82]) + b"\0\0\0\0hi") * 10_000
    attacker.socket.settimeout(30)
    sent = 0
    while sent < 400 and attacker.send(frames):
        sent += 1
        assert quick(web) < 5
    assert sent < 400
    attacker.close()

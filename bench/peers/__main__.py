"""One process of one peer. For the broker, on the server in BENCH_REDIS_URL:

python -m bench.peers NAME fill-and-work COUNT CAPACITY [RECOVERY_S]    enqueue COUNT tasks, then be a worker
python -m bench.peers NAME work CAPACITY [RECOVERY_S]                   be a worker
python -m bench.peers NAME send COUNT READY    wait for the worker to make the file READY, then enqueue one by one,
                                               each with the time of its sending

For the pipeline, on those in DATABASE_URL and REDIS_URL:

python -m bench.peers NAME prepare | serve
python -m bench.peers NAME submit COUNT        one task, "ready" on standard output; on a line of standard input COUNT
                                               tasks, and how long that took; ends with the next line
"""

import importlib
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from bench.peers import module_of

REST_S = (0.006, 0.014)
"""Between two single sends: longer than any peer needs to become idle, uneven so as not to beat with a poll."""


def fill(peer: Any, url: str, count: int) -> None:
    if hasattr(peer, "fill"):
        peer.fill(url, count)
        return
    send = peer.sender(url)
    for _ in range(count):
        send(0)


def send_slowly(peer: Any, url: str, count: int, ready: Path) -> None:
    if hasattr(peer, "send"):
        peer.send(url, count, ready)
        return
    send = peer.sender(url)
    send(0)
    while not ready.exists():
        time.sleep(0.01)
    rest = random.Random(1)
    for _ in range(count):
        time.sleep(rest.uniform(*REST_S))
        send(time.monotonic_ns())


def work(peer: Any, url: str, capacity: str, recovery_s: str = "") -> None:
    peer.work(url, int(capacity), int(recovery_s) if recovery_s else None)


def submit(peer: Any, count: int) -> None:
    peer.submit(1)  # opens the connections, and shows that the worker answers
    print("ready", flush=True)
    sys.stdin.readline()
    begin = time.monotonic()
    peer.submit(count)
    print(time.monotonic() - begin, flush=True)
    sys.stdin.readline()  # its CPU time is read before it ends


def main(name: str, action: str, *arguments: str) -> None:
    peer = importlib.import_module(f"bench.peers.{module_of(name)}")
    url = os.environ.get("BENCH_REDIS_URL", "")
    match action, *arguments:
        case "fill-and-work", count, *rest:
            fill(peer, url, int(count))
            work(peer, url, *rest)
        case "work", *rest:
            work(peer, url, *rest)
        case "send", count, ready:
            send_slowly(peer, url, int(count), Path(ready))
        case "prepare", *_:
            peer.prepare()
        case "serve", *_:
            peer.serve()
        case "submit", count:
            submit(peer, int(count))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])

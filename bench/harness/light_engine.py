"""The smallest engine: reports READY to its supervisor, then does what its argument says. Few imports, a fast start."""

import os
import socket
import sys
import time


def ready() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])


def write(megabytes: int) -> float:
    """Seconds for so much output in large writes, as fast as it goes."""
    block = (b"x" * 99 + b"\n") * 10_000
    began = time.monotonic()
    for _ in range(megabytes):
        os.write(1, block)
    return time.monotonic() - began


if __name__ == "__main__":
    mode = sys.argv[1]
    if mode == "crash":
        sys.exit(1)
    if mode == "plain":
        sys.stderr.write(f"{write(int(sys.argv[2])):.6f}")
        sys.exit(0)
    ready()
    if mode == "spam":
        seconds = write(int(sys.argv[2]))
        with open(sys.argv[3], "w") as file:  # noqa: PTH123 (pathlib would double its start-up)
            file.write(f"{seconds:.6f}")
    while True:
        time.sleep(3600)

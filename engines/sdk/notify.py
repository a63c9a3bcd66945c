"""sd_notify: tells our supervisor, or systemd, READY=1, WATCHDOG=1, STATUS=...; silent if there is neither."""

from __future__ import annotations

import os
import socket


def notify(*assignments: str) -> bool:
    """Sends the assignments in one datagram; says whether anybody was there to listen."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return False
    if address.startswith("@"):  # an abstract socket, as systemd writes it
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        # A full or vanished socket must never hold up the engine's work.
        sock.setblocking(False)
        try:
            sock.sendto("\n".join(assignments).encode(), address)
        except OSError:
            return False
    return True

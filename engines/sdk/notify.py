"""sd_notify: tells our supervisor, or systemd, READY=1, WATCHDOG=1, STATUS=...; silent if there is neither."""

from __future__ import annotations

import os
import socket

PATIENCE = 2.0


def notify(*assignments: str, patience: float = PATIENCE) -> bool:
    """Sends the assignments in one datagram; says whether it arrived."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return False
    if address.startswith("@"):  # an abstract socket, as systemd writes it
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        # The queue of such a socket is short (ten datagrams on many kernels), and nobody would miss a READY that was
        # dropped: so wait for room, but not for ever.
        sock.settimeout(patience)
        try:
            sock.sendto("\n".join(assignments).encode(), address)
        except OSError:
            return False
    return True

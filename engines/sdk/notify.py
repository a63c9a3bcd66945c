"""sd_notify: sends READY=1, WATCHDOG=1, STATUS=... to the supervisor or systemd, if NOTIFY_SOCKET names one."""

from __future__ import annotations

import os
import socket

SEND_TIMEOUT_S = 2.0


def notify(*assignments: str, timeout_s: float = SEND_TIMEOUT_S) -> bool:
    """Sends the assignments in one datagram. True if it arrived."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return False
    if address.startswith("@"):  # an abstract socket, as systemd writes it
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        # The queue of such a socket is short (ten datagrams on many kernels), and a dropped READY would not be noticed:
        # wait for room, but not for ever.
        sock.settimeout(timeout_s)
        try:
            sock.sendto("\n".join(assignments).encode(), address)
        except OSError:
            return False
    return True

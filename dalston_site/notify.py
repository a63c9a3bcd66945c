"""Tells whoever started this process that it is ready, in systemd's words: a unit of `Type=notify` works as it is."""

import os
import socket


def ready() -> None:
    """READY=1 to $NOTIFY_SOCKET. Nobody listens: nothing happens."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        try:
            sender.sendto(f"READY=1\nMAINPID={os.getpid()}".encode(), address)
        except OSError:  # the one who asked is gone; that is no reason not to work
            return

"""Names and ids that become part of Redis keys: which are allowed, and the default name of a node."""

from __future__ import annotations

import re
import socket

from dalston_queue.broker.errors import Invalid

NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")  # of queues, capabilities and engines
_ID = r"[A-Za-z0-9._-]"
NODE_ID = rf"{_ID}{{1,127}}"
ENGINE_ID = rf"{_ID}{{1,200}}"  # of a process, or a slot: its node, its engine, its number and its start
COMMAND_ID = WORKER_ID = rf"{_ID}{{1,100}}"


def check_name(what: str, name: str) -> str:
    if not NAME.fullmatch(name):
        raise Invalid(
            f"{what} {name!r} is not a valid name: use a-z, 0-9, _ and -, start with a letter, at most 41 characters"
        )
    return name


def default_node_name() -> str:
    """The host's name in the alphabet of node ids."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()).strip("-_.") or "node"

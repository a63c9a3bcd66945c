"""Every Redis key, built here and nowhere else, and the names and ids that may be part of one.

`docs/redis-keys.md` lists the keys; a test compares.

In cluster mode the queue's name is wrapped in `{}`, so that all keys of one queue share a slot and the queues spread
over the servers. All keys that one script touches belong to one queue.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable

from dalston_queue.broker.errors import Invalid
from dalston_queue.broker.protocol.types import TIERS, Role, Tier

WORK_GROUP = "engines"
EVENT_GROUP = "orchestrators"
JOBS = "_jobs"  # no queue can have this name: it starts with an underscore
MAX_LANES = 32  # capability sets per queue, with the plain one

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


def join_capabilities(capabilities: Iterable[str]) -> str:
    """The sorted, `+`-joined set that names a lane; empty when nothing is required."""
    return "+".join(sorted({check_name("capability", c) for c in capabilities}))


def lane_name(queue: str, capabilities: Iterable[str]) -> str:
    """A lane's name outside of Redis: its queue, with @ and its capabilities if it needs any."""
    joined = join_capabilities(capabilities)
    return f"{queue}@{joined}" if joined else queue


def queue_of_lane(lane: str) -> str:
    return lane.partition("@")[0]


class Keys:
    """The key builder of one deployment (prefix)."""

    def __init__(self, prefix: str = "dalston", cluster: bool = False) -> None:
        self.prefix = prefix
        self.cluster = cluster

    def _queue(self, queue: str) -> str:
        return f"{{{queue}}}" if self.cluster else queue

    # one queue: all in one slot

    def stream(self, queue: str, capabilities: str = "", tier: Tier = Tier.MEDIUM) -> str:
        """A lane's stream. Medium has no suffix, so that the plain name is the plain queue."""
        caps = f"@{capabilities}" if capabilities else ""
        suffix = "" if tier is Tier.MEDIUM else f":{tier}"
        return f"{self.prefix}:stream:{self._queue(queue)}{caps}{suffix}"

    def lane_and_tier(self, stream: str) -> tuple[str, Tier]:
        """The inverse of `stream`: capabilities and tier. No name has a colon or an @."""
        name, _, tier = stream.removeprefix(f"{self.prefix}:stream:").partition(":")
        return name.partition("@")[2], Tier(tier or Tier.MEDIUM)

    def lane(self, queue: str, capabilities: str) -> list[str]:
        """The streams of one capability set, in claiming order."""
        return [self.stream(queue, capabilities, tier) for tier in TIERS]

    def wake(self, queue: str, capabilities: str = "") -> str:
        caps = f"@{capabilities}" if capabilities else ""
        return f"{self.prefix}:wake:{self._queue(queue)}{caps}"

    def tasks(self, queue: str) -> str:
        return f"{self.prefix}:tasks:{self._queue(queue)}"

    def running(self, queue: str) -> str:
        return f"{self.prefix}:running:{self._queue(queue)}"

    def deadlines(self, queue: str) -> str:
        return f"{self.prefix}:deadlines:{self._queue(queue)}"

    def session(self, queue: str, engine_id: str) -> str:
        return f"{self.prefix}:session:{self._queue(queue)}:{engine_id}"

    def beats(self, queue: str) -> str:
        return f"{self.prefix}:beats:{self._queue(queue)}"

    def verdicts(self, queue: str) -> str:
        return f"{self.prefix}:verdicts:{self._queue(queue)}"

    def lanes(self, queue: str) -> str:
        return f"{self.prefix}:lanes:{self._queue(queue)}"

    def events(self, queue: str) -> str:
        return f"{self.prefix}:events:{self._queue(queue)}"

    def counters(self, queue: str) -> str:
        return f"{self.prefix}:counters:{self._queue(queue)}"

    def task_keys(self, queue: str) -> list[str]:
        """The first keys, in this order, of every script that ends a running task or takes it from its owner."""
        return [
            self.tasks(queue),
            self.running(queue),
            self.deadlines(queue),
            self.events(queue),
            self.counters(queue),
        ]

    # the whole deployment

    def stages(self) -> str:
        return f"{self.prefix}:stages"

    def marker(self) -> str:
        return f"{self.prefix}:marker"

    def engine(self, engine_id: str) -> str:
        return f"{self.prefix}:engine:{engine_id}"

    def node(self, node_id: str) -> str:
        return f"{self.prefix}:node:{node_id}"

    def engines(self) -> str:
        return f"{self.prefix}:engines"

    def nodes(self) -> str:
        return f"{self.prefix}:nodes"

    def commands(self, node_id: str) -> str:
        return f"{self.prefix}:commands:{self._queue(node_id)}"  # one slot with its questions and replies

    def questions(self, node_id: str) -> str:
        return f"{self.prefix}:questions:{self._queue(node_id)}"

    def replies(self, node_id: str) -> str:
        return f"{self.prefix}:replies:{self._queue(node_id)}"

    def logs(self, node_id: str) -> str:
        return f"{self.prefix}:logs:{node_id}"

    def rate(self, caller: str) -> str:
        return f"{self.prefix}:rate:{caller}"

    def leader(self, role: Role) -> str:
        return f"{self.prefix}:{role}:leader"

"""Cancellation: removes waiting tasks in O(1) each, asks the engine of a running one to stop."""

from __future__ import annotations

from collections.abc import Sequence

from dalston_queue.broker.connection.shard import Argument, Shard
from dalston_queue.broker.connection.topology import Topology
from dalston_queue.broker.operations.records import follow
from dalston_queue.broker.protocol.types import Removed

Attempts = Sequence[tuple[str, int | None]]
"""Tasks and attempts; None for the attempt that Redis knows."""

_ORDER = tuple(Removed)


def remove(topology: Topology, queue: str, task_id: str, attempt: int | None = None) -> Removed:
    """Remove a waiting task. A running one is left alone."""
    (removed,) = remove_many(topology, queue, [(task_id, attempt)])
    return removed


def remove_many(topology: Topology, queue: str, attempts: Attempts) -> list[Removed]:
    """Remove those that wait; the answers in order. One round trip per shard, and another one for those that wait in
    another stream than the plain one."""
    return _cancel(topology, queue, attempts, flag=False)


def request_cancel(topology: Topology, queue: str, task_id: str, attempt: int | None = None) -> Removed:
    """Remove a waiting task; ask the engine of a running one to stop (it settles Cancelled)."""
    (found,) = _cancel(topology, queue, [(task_id, attempt)], flag=True)
    return found


def cancel(shard: Shard, queue: str, attempts: Attempts, flag: bool) -> list[Removed]:
    """In one shard. flag: ask the engine of a running task to stop."""
    keys = shard.keys
    arguments: list[list[Argument]] = [
        [task, "" if attempt is None else attempt, int(flag)] for task, attempt in attempts
    ]
    answers = follow(shard, "cancel", queue, [keys.tasks(queue), keys.counters(queue)], arguments)
    return [Removed(answer.decode()) for answer in answers]


def _cancel(topology: Topology, queue: str, attempts: Attempts, flag: bool) -> list[Removed]:
    """Several shards may know attempts of a task; the first answer in the order of Removed counts."""
    by_shard = [cancel(shard, queue, attempts, flag) for shard in topology.shards_of(queue)]
    return [min(answers, key=_ORDER.index) for answers in zip(*by_shard, strict=True)]

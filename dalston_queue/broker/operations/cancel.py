"""Cancellation: removes a waiting task in O(1), asks the engine of a running one to stop."""

from __future__ import annotations

from dalston_queue.broker.connection.shard import Argument, Shard
from dalston_queue.broker.connection.topology import Topology
from dalston_queue.broker.operations.records import follow
from dalston_queue.broker.protocol.types import Removed

_BY_WEIGHT = (Removed.FLAGGED, Removed.RUNNING, Removed.SETTLED, Removed.REMOVED, Removed.ABSENT)


def remove(topology: Topology, queue: str, task_id: str, attempt: int | None = None) -> Removed:
    """Remove a waiting task. A running one is left alone."""
    return _cancel(topology, queue, task_id, attempt, flag=False)


def request_cancel(topology: Topology, queue: str, task_id: str, attempt: int | None = None) -> Removed:
    """Remove a waiting task; ask the engine of a running one to stop (it settles Cancelled)."""
    return _cancel(topology, queue, task_id, attempt, flag=True)


def cancel(shard: Shard, queue: str, task_id: str, attempt: int | None, flag: bool) -> Removed:
    """In one shard. flag: ask the engine of a running task to stop."""
    keys = shard.keys
    names = [keys.tasks(queue), keys.counters(queue)]
    arguments: list[Argument] = [task_id, "" if attempt is None else attempt, int(flag)]
    return Removed(follow(shard, "cancel", queue, task_id, names, arguments).decode())


def _cancel(topology: Topology, queue: str, task_id: str, attempt: int | None, flag: bool) -> Removed:
    # From the lowest priority up, as ageing migrates: a task on its way is not missed. Two shards may know it then; the
    # answer of the one where it runs or has ended outweighs that of a removed reservation or note.
    shards = reversed(topology.shards_of(queue))
    answers = {cancel(shard, queue, task_id, attempt, flag) for shard in shards}
    return next(answer for answer in _BY_WEIGHT if answer in answers)

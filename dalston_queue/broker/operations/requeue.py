"""Requeue: an operator returns one running task to its queue. No delivery is charged."""

from __future__ import annotations

from enum import StrEnum

from dalston_queue.broker.connection.shard import Argument, Shard
from dalston_queue.broker.connection.topology import Topology
from dalston_queue.broker.operations.lanes import lane_field, read_lanes
from dalston_queue.broker.operations.records import read_records
from dalston_queue.broker.protocol.messages import ErrorInfo, encode_error
from dalston_queue.broker.protocol.types import Tier


class Requeued(StrEnum):
    RETURNED = "returned"  # taken from its owner, waiting again, task.released written
    WAITING = "waiting"  # no engine had it, or another requeue came first
    CHANGED = "changed"  # another engine has it by now
    ABSENT = "absent"  # Redis has no such attempt, or it has ended


def requeue(
    topology: Topology, queue: str, task_id: str, attempt: int, error: ErrorInfo, *, entry_id: str = ""
) -> Requeued:
    """Take a running task from its engine, uncounted. entry_id: the delivery that was seen; if another engine has it by
    now, it is left alone."""
    for shard in topology.shards_of(queue):
        answer = _requeue(shard, queue, task_id, attempt, entry_id, error)
        if answer is not Requeued.ABSENT:
            return answer
    return Requeued.ABSENT


def _requeue(shard: Shard, queue: str, task_id: str, attempt: int, entry_id: str, error: ErrorInfo) -> Requeued:
    arguments: list[Argument] = [task_id, attempt, entry_id, encode_error(error)]
    keys = shard.keys
    record = read_records(shard, queue, [task_id]).get(task_id)
    stream = record.stream if record else ""
    while True:
        lane = _lane(shard, queue, stream)
        if lane is None:
            return Requeued.ABSENT
        streams = [keys.stream(queue, lane, tier) for tier in (Tier.RECOVERED, Tier.SUSPECT)]
        names = [*keys.task_keys(queue), stream, *streams, keys.wake(queue, lane), keys.lanes(queue)]
        answer, *elsewhere = shard.run("requeue", names, [*arguments, lane_field(lane)])
        if answer != b"elsewhere":
            return Requeued(answer.decode())
        stream = elsewhere[0].decode()  # it moved between the read and the script


def _lane(shard: Shard, queue: str, stream: str) -> str | None:
    """The capability set that this stream belongs to."""
    lanes = read_lanes(shard, queue).capabilities
    return next((lane for lane in lanes if stream in shard.keys.lane(queue, lane)), None)

"""Taking one task from its engine and putting it back in line, because an operator wants so: nobody is charged."""

from __future__ import annotations

from enum import StrEnum

from dalston_queue.broker.connection.shard import Argument, Shard
from dalston_queue.broker.operations.cancel import read_records
from dalston_queue.broker.operations.lanes import lane_field, read_lanes
from dalston_queue.broker.protocol.messages import ErrorInfo, encode_error
from dalston_queue.broker.protocol.types import Tier


class Requeued(StrEnum):
    RETURNED = "returned"  # taken from its owner, in line again, task.released written
    WAITING = "waiting"  # it is in line: nobody had it, or somebody else was faster
    CHANGED = "changed"  # another engine has it by now
    ABSENT = "absent"  # Redis has no such attempt, or it has ended


def requeue(shard: Shard, queue: str, task_id: str, attempt: int, entry_id: str, error: ErrorInfo) -> Requeued:
    arguments: list[Argument] = [task_id, attempt, entry_id, encode_error(error)]
    keys = shard.keys
    record = read_records(shard, queue, [task_id]).get(task_id)
    stream = record.stream if record else ""
    while True:
        lane = _lane(shard, queue, stream)
        if lane is None:
            return Requeued.ABSENT
        front = [keys.stream(queue, lane, tier) for tier in (Tier.RECOVERED, Tier.SUSPECT)]
        names = [*keys.task_keys(queue), stream, *front, keys.wake(queue, lane), keys.lanes(queue)]
        answer, *elsewhere = shard.run("requeue", names, [*arguments, lane_field(lane)])
        if answer != b"elsewhere":
            return Requeued(answer.decode())
        stream = elsewhere[0].decode()  # it moved between the look and the script: look again


def _lane(shard: Shard, queue: str, stream: str) -> str | None:
    """Which capability set this stream belongs to."""
    lanes = read_lanes(shard, queue).capabilities
    return next((lane for lane in lanes if stream in shard.keys.lane(queue, lane)), None)

"""Records of live tasks, and scripts that must know the stream of a task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dalston_queue.broker.connection.shard import Argument, Shard, pairs
from dalston_queue.broker.connection.topology import Topology
from dalston_queue.broker.protocol import validate
from dalston_queue.broker.protocol.record import Record


def records(topology: Topology, queue: str, task_ids: Sequence[str]) -> dict[str, Record]:
    """The records of these tasks, by task id; a task without a record is left out."""
    found: dict[str, Record] = {}
    # from the lowest priority up, as ageing migrates: a task on its way is not missed
    for shard in reversed(topology.shards_of(queue)):
        for task_id, record in read_records(shard, queue, task_ids).items():
            # while a task moves between shards both may know it for a moment: the later record counts
            if task_id not in found or record > found[task_id]:
                found[task_id] = record
    return found


def scan_records(topology: Topology, queue: str, page: int = 1000) -> Iterator[dict[str, Record]]:
    """Every record of a queue, about `page` at a time: for the reconciler. A record that exists during the whole scan
    is returned at least once."""
    for shard in topology.shards_of(queue):
        cursor = b""
        while cursor != b"0":
            cursor, flat = shard.command("HSCAN", shard.keys.tasks(queue), cursor or b"0", "COUNT", page)
            yield validate.records(pairs(flat))


def read_records(shard: Shard, queue: str, task_ids: Sequence[str]) -> dict[str, Record]:
    """The records of these tasks in one shard."""
    if not task_ids:
        return {}
    raw = shard.command("HMGET", shard.keys.tasks(queue), *task_ids)
    return validate.records(zip((task.encode() for task in task_ids), raw, strict=True))


def follow(
    shard: Shard, name: str, queue: str, task_id: str, keys: Sequence[str], arguments: Sequence[Argument]
) -> bytes:
    """Run a script that must know the task's stream. The task may move between the read and the script; then the script
    names its new stream, and runs again."""
    record = read_records(shard, queue, [task_id]).get(task_id)
    stream = record.stream if record and record.stream else shard.keys.stream(queue)
    while True:
        answer = shard.run(name, [*keys, stream], arguments)
        if answer[0] != b"elsewhere":
            return bytes(answer[0])
        stream = answer[1].decode()

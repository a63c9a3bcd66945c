"""Records of live tasks, and scripts that must know the stream of a task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dalston_queue.broker.connection.shard import Argument, Shard, pairs, script
from dalston_queue.broker.connection.topology import Topology
from dalston_queue.broker.protocol import validate
from dalston_queue.broker.protocol.record import Record


def records(topology: Topology, queue: str, task_ids: Sequence[str]) -> dict[str, Record]:
    """The records of these tasks, by task id; a task without a record is left out."""
    found: dict[str, Record] = {}
    for shard in topology.shards_of(queue):
        for task_id, record in read_records(shard, queue, task_ids).items():
            # a new attempt may be in another shard than the one that is ending: the later record counts
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
    shard: Shard, name: str, queue: str, keys: Sequence[str], arguments: Sequence[Sequence[Argument]]
) -> list[bytes]:
    """Run a script once per task, in one round trip. It must know the stream of its task, and names it if that is not
    the plain one; then it runs again, in another round trip for all such tasks."""
    streams = [shard.keys.stream(queue)] * len(arguments)
    answers = [b""] * len(arguments)
    left = list(range(len(arguments)))
    while left:
        replies = shard.all([script(name, [*keys, streams[task]], arguments[task]) for task in left])
        for task, (answer, *elsewhere) in zip(left, replies, strict=True):
            answers[task] = answer
            if elsewhere:
                streams[task] = elsewhere[0].decode()
        left = [task for task in left if answers[task] == b"elsewhere"]
    return answers

"""Finding a task by its record: reading records, removing and cancelling in O(1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dalston_queue.broker.connection.shard import Argument, Shard, pairs
from dalston_queue.broker.protocol.record import Record
from dalston_queue.broker.protocol.types import Removed
from dalston_queue.broker.protocol.validate import records


def read_records(shard: Shard, queue: str, task_ids: Sequence[str]) -> dict[str, Record]:
    if not task_ids:
        return {}
    raw = shard.command("HMGET", shard.keys.tasks(queue), *task_ids)
    return records(zip((task.encode() for task in task_ids), raw, strict=True))


def scan_records(shard: Shard, queue: str, page: int) -> Iterator[dict[str, Record]]:
    """Every record, about `page` at a time. One that is there all along comes at least once, others may or may not."""
    cursor = b"0"
    while True:
        cursor, flat = shard.command("HSCAN", shard.keys.tasks(queue), cursor, "COUNT", page)
        yield records(pairs(flat))
        if cursor == b"0":
            return


def cancel(shard: Shard, queue: str, task_id: str, attempt: int | None, flag: bool) -> Removed:
    keys = shard.keys
    names = [keys.tasks(queue), keys.ageing(queue), keys.counters(queue)]
    arguments: list[Argument] = [task_id, "" if attempt is None else attempt, int(flag)]
    return Removed(follow(shard, "cancel", queue, task_id, names, arguments).decode())


def follow(
    shard: Shard, name: str, queue: str, task_id: str, keys: Sequence[str], arguments: Sequence[Argument]
) -> bytes:
    """Run a script that must know the task's stream. It may move between the look and the script; then look again."""
    record = read_records(shard, queue, [task_id]).get(task_id)
    stream = record.stream if record and record.stream else shard.keys.stream(queue)
    while True:
        answer = shard.run(name, [*keys, stream], arguments)
        if answer[0] != b"elsewhere":
            return bytes(answer[0])
        stream = answer[1].decode()

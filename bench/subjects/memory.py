"""Memory: Redis bytes per waiting task, and what is left when all tasks are done."""

from bench.harness.figures import Section, Target
from bench.harness.servers import BenchServer
from bench.peers.dalston import NO_LIMIT, QUEUE, append_many
from dalston_queue.broker import Broker, Consumer, EventReader, connect
from dalston_queue.broker.protocol.messages import Completed

PAYLOAD = "x" * 190
"""With its JSON around it, 200 bytes."""
WARM_UP = 1000
"""Tasks that make what stays: lanes, groups, cached scripts, as many wake-up tokens as there may be."""
BUFFERS = 2 * 2 * 16 * 1024
"""Two connections stay open, the broker's and ours. The server makes their buffers for reading and writing larger and
smaller as it likes, up to 16 KiB each."""


def memory(server: BenchServer, *, tasks: int) -> Section:
    server.flush()
    broker = connect(server.url)
    append_many(broker, QUEUE, WARM_UP, text=PAYLOAD)
    _drain(broker, "bench.first.0.1")  # another engine than the measured one: what that one leaves would be a new key
    keys = _keys(server)  # first, because the server keeps a histogram of each command from its first call on
    start = server.used_memory()

    append_many(broker, QUEUE, tasks, text=PAYLOAD)
    each = (server.used_memory() - start) / tasks
    _drain(broker, "bench.drain.0.1")
    residue = server.used_memory() - start
    after, consumers = _keys(server), _consumers(server)
    left = sorted(after.keys() - keys.keys())
    in_keys = sum(after.values()) - sum(keys.values())
    broker.close()
    server.flush()

    return Section(
        f"Redis memory, {tasks:,} tasks with a 200 byte payload, and what is left after all is acknowledged",
        ["", "bytes per waiting task", "keys left", "consumers left", "bytes left in keys", "bytes left in the server"],
        [["dalston", f"{each:.0f}", str(len(left)), str(len(consumers)), f"{in_keys:,}", f"{residue:,}"]],
        [
            Target(f"{each:.0f} bytes per waiting task (target under 700)", each < 700),
            Target(
                f"{len(left)} keys, {len(consumers)} consumers, {in_keys:,} bytes in keys left (target none)",
                not left and not consumers and in_keys <= 0,
            ),
            Target(f"{residue:,} bytes left in the server (target its buffers, {BUFFERS:,})", residue <= BUFFERS),
        ],
        [f"left: {', '.join([*left, *consumers])}"] if left or consumers else [],
    )


def _drain(broker: Broker, engine: str) -> None:
    """An engine and an orchestrator, to the last event."""
    consumer = Consumer(broker, engine, [QUEUE], capacity=100, max_backlog=NO_LIMIT)
    consumer.open()
    reader = EventReader(broker, "bench")
    claimed = consumer.exchange().claimed
    while claimed:
        claimed = consumer.exchange([(task, Completed()) for task in claimed]).claimed
        reader.ack(reader.read(count=1000, block_ms=1))
    consumer.close()
    while events := reader.read(count=1000, block_ms=50):
        reader.ack(events)
    reader.close()


def _keys(server: BenchServer) -> dict[str, int]:
    """Every key and its bytes."""
    client = server.client
    return {key.decode(): client.memory_usage(key, samples=0) or 0 for key in client.scan_iter(count=10_000)}


def _consumers(server: BenchServer) -> list[str]:
    """Of every group of every stream."""
    client = server.client
    return [
        f"{consumer['name'].decode()} of {key.decode()}"
        for key in sorted(client.scan_iter(count=10_000, _type="stream"))
        for group in client.xinfo_groups(key)
        for consumer in client.xinfo_consumers(key, group["name"])
    ]

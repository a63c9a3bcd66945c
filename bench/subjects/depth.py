"""Long queues: whether a claim and a snapshot stay cheap (no script may read all of a stream), Redis bytes per waiting
task, and the rest when all tasks are settled.
"""

import time

from bench.harness.figures import Rounds, Section, Target
from bench.harness.servers import BenchServer
from bench.peers.dalston import NO_LIMIT, QUEUE, append_many, message
from dalston_queue.broker import Broker, Consumer, EventReader, connect
from dalston_queue.broker.protocol.messages import Completed

ROUNDS = 15
EMPTY, DEEP = "empty", "deep"
PAYLOAD = "x" * 190
"""With its JSON around it, 200 bytes."""
WARM_UP = 1000
"""Tasks that create the permanent keys: lanes, groups, cached scripts, wake-up tokens."""
BUFFERS = 2 * 2 * 16 * 1024
"""Two connections stay open, the broker's and ours. The server resizes their read and write buffers, up to 16 KiB
each."""


class Engine:
    """Claims one task, again and again. Before each claim one is appended and after it this one is settled, so the lane
    keeps its length; the clock runs for the claim alone."""

    def __init__(self, broker: Broker, queue: str) -> None:
        self.broker, self.queue = broker, queue
        self.consumer = Consumer(broker, f"bench.{queue}.0.1", [queue], capacity=1, max_backlog=NO_LIMIT)
        self.consumer.open()
        self.claim()  # makes the lane, or finds it
        self.rounds = Rounds(smaller_is_better=True)

    def claim(self) -> float:
        """Returns the milliseconds that it took."""
        self.broker.append([message(0, self.queue)])
        begin = time.perf_counter()
        claimed = self.consumer.claim()
        spent = time.perf_counter() - begin
        assert len(claimed) == 1, "nothing was claimed, so the figure would mean nothing"
        self.consumer.exchange([(task, Completed()) for task in claimed], free=0)
        return spent * 1000


def depth(server: BenchServer, *, waiting: int, pending: int) -> Section:
    """A lane that is empty but for the task that is claimed, and a long one on the same server, claim by
    claim in turns."""
    server.flush()
    calls = 200 if waiting >= 100_000 else 50
    broker = connect(server.url)
    begin = time.monotonic()
    append_many(broker, DEEP, waiting + pending)
    appended = (waiting + pending) / (time.monotonic() - begin)
    _hold(broker, pending)

    empty, deep = Engine(broker, EMPTY), Engine(broker, DEEP)
    for _ in range(ROUNDS):
        took = [(empty.claim(), deep.claim()) for _ in range(calls)]
        for engine, times in zip((empty, deep), zip(*took, strict=True), strict=True):
            engine.rounds.add(sum(times) / calls)
    empty_snapshot, deep_snapshot = _snapshots(broker, EMPTY), _snapshots(broker, DEEP)
    stats = broker.snapshot([DEEP]).queues[0]
    shape = f"{stats.waiting:,} waiting, {stats.running:,} pending"
    broker.close()
    server.flush()

    ratio = deep.rounds.best / empty.rounds.best
    return Section(
        f"One claim, and a snapshot, empty and deep (milliseconds, best of {ROUNDS} rounds, claims in turns)",
        ["", "claim", "of all rounds", "snapshot", "of all rounds"],
        [
            ["empty but for the task", f"{empty.rounds.best:.3f}", empty.rounds.spread, *_shown(empty_snapshot)],
            [shape, f"{deep.rounds.best:.3f}", deep.rounds.spread, *_shown(deep_snapshot)],
        ],
        [
            Target(f"deep claims cost {ratio:.2f} x those of an empty lane (target at most 1.2)", ratio <= 1.2),
            Target(f"a snapshot takes {deep_snapshot.best:.1f} ms (target under 20)", deep_snapshot.best < 20),
        ],
        [f"appended in batches of 1 000: {appended:,.0f} tasks/s"],
    )


def _shown(rounds: Rounds) -> list[str]:
    return [f"{rounds.best:.2f}", rounds.spread]


def _snapshots(broker: Broker, queue: str) -> Rounds:
    rounds = Rounds(smaller_is_better=True)
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        broker.snapshot([queue])
        rounds.add((time.perf_counter() - begin) * 1000)
    return rounds


def _hold(broker: Broker, pending: int) -> None:
    """Engines that claim and never settle."""
    each = 250
    for number in range(pending // each):
        consumer = Consumer(broker, f"bench.holder.{number}.1", [DEEP], capacity=each, max_backlog=NO_LIMIT)
        consumer.open()
        held = 0
        while held < each:
            held += len(consumer.exchange().claimed)


def memory(server: BenchServer, *, tasks: int) -> Section:
    server.flush()
    broker = connect(server.url)
    append_many(broker, QUEUE, WARM_UP, text=PAYLOAD)
    _drain(broker, "bench.first.0.1")  # not the measured engine: its leftover keys would then count as old
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

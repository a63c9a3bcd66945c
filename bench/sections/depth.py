"""Whether claiming and looking stay cheap when a queue is very long: nothing may read all of anything."""

import time

from bench.harness.figures import Rounds, Section, Target
from bench.harness.servers import BenchServer
from bench.peers.dalston import NO_LIMIT, QUEUE, fill
from dalston_queue.broker import Broker, Consumer, connect
from dalston_queue.broker.messages import Completed

ROUNDS = 7


def depth(server: BenchServer, *, waiting: int, pending: int) -> Section:
    """The same engine claims one and settles it, on a short queue and on a long one."""
    server.flush()
    calls = 1_000 if waiting >= 100_000 else 300
    broker = connect(server.url)
    fill(server.url, ROUNDS * calls + 100)
    short = _claims(broker, calls)
    short_look = _looks(broker)

    begin = time.monotonic()
    fill(server.url, waiting + pending + ROUNDS * calls)
    appended = (waiting + pending) / (time.monotonic() - begin)
    _hold(broker, pending)
    deep = _claims(broker, calls)
    deep_look = _looks(broker)
    stats = broker.snapshot([QUEUE]).queues[0]
    shape = f"{stats.waiting:,} waiting, {stats.running:,} pending"
    broker.close()
    server.flush()

    ratio = deep.best / short.best
    return Section(
        f"One claim and settle, and a snapshot, short and deep (milliseconds, best of {ROUNDS} rounds)",
        ["", "claim and settle", "of all rounds", "snapshot", "of all rounds"],
        [
            ["a short queue", f"{short.best:.4f}", short.spread, f"{short_look.best:.2f}", short_look.spread],
            [shape, f"{deep.best:.4f}", deep.spread, f"{deep_look.best:.2f}", deep_look.spread],
        ],
        [
            Target(f"deep claims cost {ratio:.2f} x the short ones (target at most 1.2)", ratio <= 1.2),
            Target(f"a snapshot takes {deep_look.best:.1f} ms (target under 20)", deep_look.best < 20),
        ],
        [f"appended in batches of 1 000: {appended:,.0f} tasks/s"],
    )


def _claims(broker: Broker, calls: int) -> Rounds:
    consumer = Consumer(broker, "bench.depth.0.1", [QUEUE], capacity=1, max_backlog=NO_LIMIT)
    consumer.open()
    rounds = Rounds(smaller_is_better=True)
    claimed = consumer.exchange().claimed
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(calls):
            claimed = consumer.exchange([(task, Completed()) for task in claimed]).claimed
        rounds.add((time.perf_counter() - begin) / calls * 1000)
    assert claimed, "the queue ran empty, so the figure would mean nothing"
    consumer.close()
    return rounds


def _looks(broker: Broker) -> Rounds:
    rounds = Rounds(smaller_is_better=True)
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        broker.snapshot()
        rounds.add((time.perf_counter() - begin) * 1000)
    return rounds


def _hold(broker: Broker, pending: int) -> None:
    """Engines that claim and never settle."""
    each = 1000
    for number in range(pending // each):
        consumer = Consumer(broker, f"bench.holder.{number}.1", [QUEUE], capacity=each, max_backlog=NO_LIMIT)
        consumer.open()
        held = 0
        while held < each:
            held += len(consumer.exchange().claimed)

"""Whether claiming and looking stay cheap when a queue is very long: nothing may read all of anything."""

import itertools
import time

from bench.harness.figures import Rounds, Section, Target
from bench.harness.servers import BenchServer
from bench.peers.dalston import NO_LIMIT, message
from dalston_queue.broker import Broker, Claimed, Consumer, connect
from dalston_queue.broker.messages import Completed

ROUNDS = 15
SHORT, DEEP = "short", "deep"


class Engine:
    """Claims one and settles it, again and again."""

    def __init__(self, broker: Broker, queue: str) -> None:
        self.consumer = Consumer(broker, f"bench.{queue}.0.1", [queue], capacity=1, max_backlog=NO_LIMIT)
        self.consumer.open()
        self.claimed: list[Claimed] = self.consumer.exchange().claimed
        self.rounds = Rounds(smaller_is_better=True)

    def round(self, calls: int) -> None:
        begin = time.perf_counter()
        for _ in range(calls):
            self.claimed = self.consumer.exchange([(task, Completed()) for task in self.claimed]).claimed
        self.rounds.add((time.perf_counter() - begin) / calls * 1000)
        assert self.claimed, "the queue ran empty, so the figure would mean nothing"


def depth(server: BenchServer, *, waiting: int, pending: int) -> Section:
    """A short queue and a long one on the same server, in turns."""
    server.flush()
    calls = 200 if waiting >= 100_000 else 50
    broker = connect(server.url)
    short_look = _looks(broker, SHORT)
    _fill(broker, SHORT, ROUNDS * calls + 100)
    begin = time.monotonic()
    _fill(broker, DEEP, waiting + pending + ROUNDS * calls)
    appended = (waiting + pending) / (time.monotonic() - begin)
    _hold(broker, pending)

    short, deep = Engine(broker, SHORT), Engine(broker, DEEP)
    for _ in range(ROUNDS):
        short.round(calls)
        deep.round(calls)
    deep_look = _looks(broker, DEEP)
    stats = broker.snapshot([DEEP]).queues[0]
    shape = f"{stats.waiting:,} waiting, {stats.running:,} pending"
    broker.close()
    server.flush()

    ratio = deep.rounds.best / short.rounds.best
    return Section(
        f"One claim and settle, and a snapshot, short and deep (milliseconds, best of {ROUNDS} rounds in turns)",
        ["", "claim and settle", "of all rounds", "snapshot", "of all rounds"],
        [
            ["a short queue", f"{short.rounds.best:.3f}", short.rounds.spread, *_shown(short_look)],
            [shape, f"{deep.rounds.best:.3f}", deep.rounds.spread, *_shown(deep_look)],
        ],
        [
            Target(f"deep claims cost {ratio:.2f} x the short ones (target at most 1.2)", ratio <= 1.2),
            Target(f"a snapshot takes {deep_look.best:.1f} ms (target under 20)", deep_look.best < 20),
        ],
        [f"appended in batches of 1 000: {appended:,.0f} tasks/s"],
    )


def _shown(rounds: Rounds) -> list[str]:
    return [f"{rounds.best:.2f}", rounds.spread]


def _looks(broker: Broker, queue: str) -> Rounds:
    rounds = Rounds(smaller_is_better=True)
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        broker.snapshot([queue])
        rounds.add((time.perf_counter() - begin) * 1000)
    return rounds


def _fill(broker: Broker, queue: str, count: int) -> None:
    numbers = iter(range(count))
    while batch := list(itertools.islice(numbers, 1000)):
        broker.append([message(0, queue) for _ in batch])


def _hold(broker: Broker, pending: int) -> None:
    """Engines that claim and never settle."""
    each = 250
    for number in range(pending // each):
        consumer = Consumer(broker, f"bench.holder.{number}.1", [DEEP], capacity=each, max_backlog=NO_LIMIT)
        consumer.open()
        held = 0
        while held < each:
            held += len(consumer.exchange().claimed)

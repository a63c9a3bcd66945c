"""How many no-op tasks one process starts and acknowledges in a second, one at a time and 32 at a time.

Everybody runs a few rounds in each way. Then Dalston and its fastest rivals run as many again, one right after the
other: the machine is twice as fast in one minute as in the next, and who is compared must have had the same minutes.
"""

import statistics
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum

from bench.harness.cpu import apart
from bench.harness.figures import Rounds, Section, Target
from bench.harness.processes import PeerError, run
from bench.harness.servers import BenchServer
from bench.peers import NOT_CONCURRENT, OURS, TAKES_AHEAD
from bench.sections.raw import ping_loop, pipelined_xadd

WARM = 50
SLACK = 150
"""Tasks beyond the measured ones, so that nobody is measured on an empty queue."""

FASTEST = {
    ("dalston", 1): 16_000,
    ("dalston", 32): 60_000,
    ("dalston_sdk", 1): 14_000,
    ("dalston_sdk", 32): 40_000,
    ("dramatiq_ahead", 1): 9_000,
}
PEERS = 6_000
"""Tasks per second that nobody exceeds here: how much must be enqueued for a round."""

PING = "(PING loop)"


class Way(Enum):
    """How a column of the table is measured: its title, how many at a time, and the target: × the fastest rival."""

    ONE = ("1 at a time", 1, 2.0)
    HALTING = ("1, server halts", 1, 2.0)
    MANY = ("32 at a time", 32, 8.0)

    def __init__(self, title: str, capacity: int, target: float) -> None:
        self.title = title
        self.capacity = capacity
        self.target = target

    def cores(self, server: int) -> AbstractContextManager[None]:
        """One at a time, round trips are what counts. With many, threads of one core would not get into each other's
        way, which is not how they are run."""
        return nullcontext() if self is Way.MANY else apart(server, halting=self is Way.HALTING)


@dataclass
class Figures:
    """What the rounds of one peer gave in one way."""

    rate: Rounds = field(default_factory=Rounds)
    cpu_us: Rounds = field(default_factory=lambda: Rounds(smaller_is_better=True))  # worker and server, per task
    beside: list[float] = field(default_factory=list)  # the rates of those rounds that the rivals ran at the same time

    def cells(self) -> list[str]:
        if not self.rate.values:
            return ["-", "", ""]
        cpu = f"{self.cpu_us.best:,.0f}" if self.cpu_us.values else ""
        return [f"{self.rate.best:,.0f}", f"{self.rate.median:,.0f}", cpu]


Table = dict[tuple[str, Way], Figures]


def measure(peer: str, way: Way, server: BenchServer, seconds: float, figures: Figures) -> None:
    server.flush()
    with way.cores(server.pid):
        if peer == PING:
            figures.rate.add(ping_loop(server, seconds / 2))
            return
        count = int(FASTEST.get((peer, way.capacity), PEERS) * seconds)
        probe = f"throughput:{WARM}:{count}:{seconds}:{server.pid}"
        found = run(peer, server.url, "fill-and-work", WARM + count + SLACK, way.capacity, probe=probe)
    figures.rate.add(found["count"] / found["seconds"])
    figures.cpu_us.add(found["cpu_seconds"] / found["count"] * 1e6)


def throughput(server: BenchServer, peers: list[str], survivors: set[str], *, rounds: int, seconds: float) -> Section:
    """`survivors`: the peers that keep the task when a worker is killed; Dalston is compared with them only."""
    table: Table = {
        (peer, way): Figures()
        for way in Way
        for peer in (*OURS, *peers, PING)
        if way.capacity == 1 or peer not in (*NOT_CONCURRENT, PING)
    }
    xadd, failures = Rounds(), []
    for number in range(rounds):
        xadd.add(pipelined_xadd(server, seconds / 2))
        for (peer, way), figures in table.items():
            try:
                measure(peer, way, server, seconds, figures)
            except PeerError as failed:
                failures.append(f"round {number + 1}: {failed}")
    for way in Way:
        contest(server, table, way, rivals(table, way, survivors), rounds=rounds, seconds=seconds)
    server.flush()
    section = Section(
        f"Tasks per second, one process, no-op tasks (best and median of {rounds} rounds, of those who are compared "
        f"{2 * rounds}; CPU of worker and server per task)",
        ["", *(head for way in Way for head in (way.title, "median", "CPU us"))],
        notes=failures,
    )
    for peer in [*OURS, *peers, PING]:
        cells = [table.get((peer, way), Figures()).cells() for way in Way]
        section.rows.append([peer, *(cell for each in cells for cell in each)])
    section.rows.append(["(pipelined XADD)", f"{xadd.best:,.0f}", f"{xadd.median:,.0f}", *[""] * 7])
    section.targets = _targets(table, survivors)
    return section


def rivals(table: Table, way: Way, survivors: set[str]) -> list[str]:
    """The fastest that keeps its task, and those that come near it. One at a time, one that is told to hold a hundred
    is not among them: see `_holding_many`."""
    rates = {
        peer: table[peer, way].rate.best
        for peer in sorted(survivors - (TAKES_AHEAD if way.capacity == 1 else set()))
        if (peer, way) in table and table[peer, way].rate.values
    }
    return [peer for peer, rate in rates.items() if rate > 0.8 * max(rates.values())]


def contest(server: BenchServer, table: Table, way: Way, against: list[str], *, rounds: int, seconds: float) -> None:
    """More rounds of those that are compared, always one right after the other."""
    limit = [PING] if (PING, way) in table else []
    for _ in range(rounds):
        for peer in ("dalston", *against, *limit):
            figures = table[peer, way]
            try:
                measure(peer, way, server, seconds, figures)
                figures.beside.append(figures.rate.values[-1])
            except PeerError:
                figures.beside.append(0.0)


def _targets(table: Table, survivors: set[str]) -> list[Target]:
    targets = []
    for way in Way:
        if not table["dalston", way].rate.values:
            continue
        against = rivals(table, way, survivors)
        if against:
            fastest = max(against, key=lambda peer: table[peer, way].rate.best)
            targets.append(_compared(table, way, fastest, way.target))
        if (PING, way) in table:
            targets.append(_compared(table, way, PING, 0.5))
    return [*targets, *_holding_many(table, survivors)]


def _compared(table: Table, way: Way, other: str, target: float) -> Target:
    ours, theirs = table["dalston", way], table[other, way]
    ratio = ours.rate.best / theirs.rate.best
    pairs = [a / b for a, b in zip(ours.beside, theirs.beside, strict=True) if a and b]
    beside = f"; median of {len(pairs)} rounds beside each other {statistics.median(pairs):.2f}" if pairs else ""
    return Target(f"{way.title}: {ratio:.2f} x {other} (target {target:g}){beside}", ratio >= target)


def _holding_many(table: Table, survivors: set[str]) -> list[Target]:
    """Who is told to hold a hundred tasks for its one thread asks for many at once. Its like is a Dalston that holds 32
    for its one thread: twice as much, one asked for after the other, may be more than a loop of PING."""
    found = []
    for peer in sorted(TAKES_AHEAD & survivors):
        theirs = table[peer, Way.ONE].rate
        if theirs.values and table["dalston", Way.MANY].rate.values:
            one, many = (table["dalston", way].rate.best / theirs.best for way in (Way.ONE, Way.MANY))
            text = f"one thread that holds many: {many:.1f} x {peer} (target 2); holding one, {one:.2f} x"
            found.append(Target(text, many >= 2))
    return found

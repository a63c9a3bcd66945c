"""What is measured of whom in which way, who Dalston's rivals are, and how it stands beside them."""

import statistics
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum

from bench.harness.cpu import apart
from bench.harness.figures import Rounds, Target
from bench.peers import OURS_AHEAD, TAKES_AHEAD

PING = "(PING loop)"
NEAR = 0.8
"""Whoever reaches this share of the fastest is a rival: another run may see it in front."""


class Way(Enum):
    """How a column of the table is measured: its title, how many at a time, and the target: × the fastest rival."""

    AWAKE = ("1, server awake", 1, 2.0)
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
    contest: list[float | None] = field(default_factory=list)  # rates of the rounds beside the rivals; None: it failed

    def cells(self) -> list[str]:
        if not self.rate.values:
            return ["-", "", ""]
        cpu = f"{self.cpu_us.best:,.0f}" if self.cpu_us.values else ""
        return [f"{self.rate.best:,.0f}", f"{self.rate.median:,.0f}", cpu]


Table = dict[tuple[str, Way], Figures]


@dataclass(frozen=True)
class Contest:
    """Who of us runs beside whom, and how many times as fast as the fastest of them it should be."""

    ours: str
    rivals: list[str]
    target: float


def contests_of(table: Table, way: Way, survivors: set[str]) -> list[Contest]:
    """Like beside like: where one task runs at a time, who is told to hold many is the rival of our own that takes
    ahead."""
    ahead = TAKES_AHEAD if way.capacity == 1 else set()
    found = [
        Contest("dalston", _fastest(table, way, survivors - ahead), way.target),
        Contest("dalston", [PING] if _measured(table, PING, way) else [], 0.5),
        Contest(OURS_AHEAD, _fastest(table, way, survivors & ahead), way.target),
    ]
    return [contest for contest in found if contest.rivals and _measured(table, contest.ours, way)]


def names(contests: list[Contest]) -> list[str]:
    """Each once, in the order in which they run."""
    return list(dict.fromkeys(name for contest in contests for name in (contest.ours, *contest.rivals)))


def verdict(table: Table, way: Way, contest: Contest) -> Target:
    other = max(contest.rivals, key=lambda name: table[name, way].rate.best)
    ratio, how = _compared(table, way, contest.ours, other)
    text = f"{way.title}: {contest.ours} {ratio:.2f} x {other} (target {contest.target:g}; {how})"
    return Target(text, ratio >= contest.target)


def beside_ahead(table: Table, way: Way, contests: list[Contest]) -> list[str]:
    """How a Dalston that takes nothing ahead stands beside those that hold many: no target, but one wants to know."""
    said = []
    for name in [name for contest in contests if contest.ours == OURS_AHEAD for name in contest.rivals]:
        ratio, how = _compared(table, way, "dalston", name)
        said.append(f"{way.title}: dalston {ratio:.2f} x {name}, which takes ahead (no target; {how})")
    return said


def _fastest(table: Table, way: Way, peers: set[str]) -> list[str]:
    """The fastest of them, and those that come near it."""
    rates = {peer: table[peer, way].rate.best for peer in sorted(peers) if _measured(table, peer, way)}
    return [peer for peer, rate in rates.items() if rate > NEAR * max(rates.values())]


def _measured(table: Table, peer: str, way: Way) -> bool:
    return (peer, way) in table and bool(table[peer, way].rate.values)


def _compared(table: Table, way: Way, ours: str, other: str) -> tuple[float, str]:
    """The ratio, by the rounds beside each other if there are any, else by the best; and how it was taken."""
    mine, theirs = table[ours, way], table[other, way]
    best = mine.rate.best / theirs.rate.best
    pairs = [a / b for a, b in zip(mine.contest, theirs.contest, strict=False) if a and b]
    if not pairs:
        return best, "by the best rounds"
    beside = f"median of {len(pairs)} rounds beside each other, {min(pairs):.2f} to {max(pairs):.2f}"
    return statistics.median(pairs), f"{beside}; by the best {best:.2f}"

"""What is measured of whom in which way, who Dalston's rivals are, and how it stands beside them."""

import statistics
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum

from bench.harness.cpu import apart
from bench.harness.figures import Rounds, Target
from bench.peers import NINTH, OURS

PING = "(PING loop)"
NEAR = 0.8
"""Whoever reaches this share of the fastest is a rival: another run may see it in front."""


class Way(Enum):
    """How a column of the table is measured: its title, how many at a time, and the target: × the rival that comes
    nearest."""

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
        return nullcontext() if self.capacity > 1 else apart(server, halting=self is Way.HALTING)


@dataclass
class Figures:
    """What the rounds of one peer gave in one way."""

    rate: Rounds = field(default_factory=Rounds)
    cpu_us: Rounds = field(default_factory=lambda: Rounds(smaller_is_better=True))  # worker and server, per task
    beside: list[float | None] = field(default_factory=list)  # rates of the rounds beside the rivals; None: it failed

    def cells(self) -> list[str]:
        if not self.rate.values:
            return ["-", "", ""]
        cpu = f"{self.cpu_us.best:,.0f}" if self.cpu_us.values else ""
        return [f"{self.rate.best:,.0f}", f"{self.rate.median:,.0f}", cpu]


Table = dict[tuple[str, Way], Figures]


@dataclass(frozen=True)
class Contest:
    """Who of ours runs beside whom, and how many times as fast as each of them it should be."""

    ours: str
    rivals: list[str]
    target: float


def contests_of(table: Table, way: Way, survivors: set[str]) -> list[Contest]:
    """The targets are the broker's. One at a time it makes a trip for each task, and is measured by the eight queues
    and by a loop of trips; the whole engine, which makes fewer, by the ninth as well, which does so, too."""
    one = way.capacity == 1
    found = [
        Contest("dalston", _fastest(table, way, survivors - NINTH if one else survivors), way.target),
        Contest("dalston_sdk", _fastest(table, way, survivors if one else set()), way.target),
        Contest("dalston", _fastest(table, way, {PING}), 0.5),
    ]
    return [contest for contest in found if contest.rivals and _measured(table, contest.ours, way)]


def runners(contests: list[Contest]) -> list[str]:
    """Ours and all their rivals, each once."""
    return list(dict.fromkeys(name for contest in contests for name in (contest.ours, *contest.rivals)))


def verdict(table: Table, way: Way, contest: Contest) -> Target:
    """By the rival that comes nearest."""
    compared = {name: _compared(table, way, contest.ours, name) for name in contest.rivals}
    nearest = min(compared, key=lambda name: compared[name][0])
    ratio, how = compared[nearest]
    text = f"{way.title}: {contest.ours} {ratio:.2f} x {nearest} (target {contest.target:g}; {how})"
    return Target(text, ratio >= contest.target)


def without_target(table: Table, way: Way, contests: list[Contest]) -> list[str]:
    """How each of ours stands beside those rivals that another of ours is measured by."""
    judged = {(contest.ours, rival) for contest in contests for rival in contest.rivals}
    rivals = sorted({rival for _, rival in judged})
    said = []
    for ours in OURS:
        for rival in rivals if _measured(table, ours, way) else ():
            if (ours, rival) not in judged:
                ratio, how = _compared(table, way, ours, rival)
                said.append(f"{way.title}: {ours} {ratio:.2f} x {rival} (no target; {how})")
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
    pairs = [a / b for a, b in zip(mine.beside, theirs.beside, strict=False) if a and b]
    if not pairs:
        return best, "by the best rounds"
    spread = f"median of {len(pairs)} rounds beside each other, {min(pairs):.2f} to {max(pairs):.2f}"
    return statistics.median(pairs), f"{spread}; by the best {best:.2f}"

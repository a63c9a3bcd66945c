"""What is measured of whom in which way, who Dalston's rivals are, and how it stands beside them."""

import statistics
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum

from bench.harness.cpu import apart
from bench.harness.figures import Rounds, Target
from bench.peers import TAKES_AHEAD

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


def rivals(table: Table, way: Way, survivors: set[str]) -> list[str]:
    """The fastest that keeps its task, and those that come near it. One at a time without those that are told to hold
    many: `targets` says how Dalston stands beside them."""
    rates = {
        peer: table[peer, way].rate.best
        for peer in sorted(survivors - (TAKES_AHEAD if way.capacity == 1 else set()))
        if _measured(table, peer, way)
    }
    return [peer for peer, rate in rates.items() if rate > NEAR * max(rates.values())]


def targets(table: Table, against: dict[Way, list[str]], survivors: set[str]) -> list[Target]:
    found = []
    ahead = sorted(TAKES_AHEAD & survivors)
    for way in Way:
        if not _measured(table, "dalston", way):
            continue
        if against[way]:
            fastest = max(against[way], key=lambda peer: table[peer, way].rate.best)
            found.append(_compared(table, way, fastest, way.target))
        if _measured(table, PING, way):
            found.append(_compared(table, way, PING, 0.5))
        if way.capacity == 1:
            found += [_compared(table, way, peer, way.target) for peer in ahead if _measured(table, peer, way)]
    for peer in ahead:
        if not (_measured(table, "dalston", Way.MANY) and _measured(table, peer, Way.AWAKE)):
            continue
        ratio = table["dalston", Way.MANY].rate.best / table[peer, Way.AWAKE].rate.best
        text = f"one thread for many: {ratio:.1f} x {peer} with one thread, if Dalston's holds 32 as well (target 2)"
        found.append(Target(text, ratio >= 2))
    return found


def _measured(table: Table, peer: str, way: Way) -> bool:
    return (peer, way) in table and bool(table[peer, way].rate.values)


def _compared(table: Table, way: Way, other: str, target: float) -> Target:
    """By the rounds beside each other if there are any, else by the best."""
    ours, theirs = table["dalston", way], table[other, way]
    best = ours.rate.best / theirs.rate.best
    pairs = [a / b for a, b in zip(ours.contest, theirs.contest, strict=False) if a and b]
    if not pairs:
        return Target(f"{way.title}: {best:.2f} x {other} by the best rounds (target {target:g})", best >= target)
    ratio = statistics.median(pairs)
    spread = (
        f"median of {len(pairs)} rounds beside each other, {min(pairs):.2f} to {max(pairs):.2f}; by the best {best:.2f}"
    )
    return Target(f"{way.title}: {ratio:.2f} x {other} (target {target:g}; {spread})", ratio >= target)

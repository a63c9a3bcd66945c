"""Figures of repeated rounds: best, median, ratios, and the tables and targets made of them."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass
class Rounds:
    """Values of several short rounds, by the number of the round. Other load only slows a round down, so the best one
    shows what the machine can do."""

    by_number: dict[int, float] = field(default_factory=dict)
    smaller_is_better: bool = False

    def add(self, value: float, number: int | None = None) -> None:
        self.by_number[len(self.by_number) if number is None else number] = value

    @property
    def values(self) -> list[float]:
        return list(self.by_number.values())

    @property
    def best(self) -> float:
        return min(self.values) if self.smaller_is_better else max(self.values)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> str:
        return f"{min(self.values):,.4g} … {max(self.values):,.4g}"


def turns(compared: Sequence[str], others: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Names in the order of their turns, with the number of the round. Names whose ratio decides a target run in every
    round, one right after the other: from one minute to the next the machine may be twice as fast. The others run in
    every third."""
    for number in range(rounds):
        yield from ((number, name) for name in (*compared, *(others if number % 3 == 0 else ())))


@dataclass(frozen=True)
class Ratio:
    """One measurement in terms of another: the median of the ratios of the rounds that both have."""

    of_rounds: list[float]

    @classmethod
    def between(cls, ours: Rounds, theirs: Rounds) -> "Ratio | None":
        both = sorted(ours.by_number.keys() & theirs.by_number.keys())
        return cls([ours.by_number[number] / theirs.by_number[number] for number in both]) if both else None

    @property
    def median(self) -> float:
        return statistics.median(self.of_rounds)

    def __str__(self) -> str:
        count, low, high = len(self.of_rounds), min(self.of_rounds), max(self.of_rounds)
        return f"median of {count} rounds beside each other, {low:.2f} to {high:.2f}"


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@dataclass(frozen=True)
class Target:
    """A target, and whether this run kept it."""

    text: str
    kept: bool

    def __str__(self) -> str:
        return f"{'ok    ' if self.kept else 'MISSED'} {self.text}"


@dataclass
class Section:
    title: str
    head: list[str]
    rows: list[list[str]] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def show(self) -> None:
        print(f"\n{self.title}")
        table = [self.head, *self.rows]
        widths = [max(len(row[column]) for row in table) for column in range(len(self.head))]
        for row in table:
            cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
            print("  " + "  ".join([row[0].ljust(widths[0]), *cells]))
        for line in (*self.targets, *self.notes):
            print(f"  {line}")

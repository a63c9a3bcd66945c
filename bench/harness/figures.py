"""Figures of repeated rounds, and the tables and verdicts made of them."""

import statistics
from dataclasses import dataclass, field


@dataclass
class Rounds:
    """What several short rounds measured. Other work on the machine only slows one down, so the best counts."""

    values: list[float] = field(default_factory=list)
    smaller_is_better: bool = False

    def add(self, value: float) -> None:
        self.values.append(value)

    @property
    def best(self) -> float:
        return min(self.values) if self.smaller_is_better else max(self.values)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> str:
        return f"{min(self.values):,.4g} … {max(self.values):,.4g}"


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@dataclass(frozen=True)
class Target:
    """A promise, and whether this run kept it."""

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
        widths = [max(len(row[i]) for row in [self.head, *self.rows]) for i in range(len(self.head))]
        for row in (self.head, *self.rows):
            cells = [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
            print("  " + "  ".join(cells))
        for target in self.targets:
            print(f"  {target}")
        for note in self.notes:
            print(f"  {note}")

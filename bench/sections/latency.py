"""From the call that enqueues a task to its first line, on an idle worker.

Everybody runs a few rounds. Then Dalston and the quickest peers run more of them, one right after the other, and the
median of their ratios decides: of a single worker one round may take twice as long as the next.
"""

import statistics
import tempfile
from pathlib import Path

from bench.harness.figures import Rounds, Section, Target, percentile
from bench.harness.processes import PeerError, report, started
from bench.harness.servers import BenchServer
from bench.peers import OURS
from bench.sections.contest import NEAR

MOST, P99_MS = 1.2, 3.0
"""The targets: times the quickest peer's median, and of our own p99."""


def delays_ms(peer: str, server: BenchServer, samples: int) -> list[float]:
    server.flush()
    with tempfile.TemporaryDirectory(prefix="dalston-bench-") as folder:
        ready = Path(folder) / "ready"
        probe = f"latency:{samples}:{ready}"
        with (
            started(peer, server.url, "work", 1, probe=probe) as worker,
            started(peer, server.url, "send", samples, ready),
        ):
            return [delay / 1e6 for delay in report(peer, worker)["delays_ns"]]


class Delays:
    """What the rounds of one peer gave."""

    def __init__(self) -> None:
        self.medians = Rounds(smaller_is_better=True)
        self.tails = Rounds(smaller_is_better=True)

    def add(self, delays: list[float]) -> float:
        self.medians.add(percentile(delays, 0.5))
        self.tails.add(percentile(delays, 0.99))
        return self.medians.values[-1]

    def cells(self) -> list[str]:
        middle, tail = self.medians, self.tails
        return [f"{middle.best:.2f}", f"{middle.median:.2f}", middle.spread, f"{tail.median:.2f}", tail.spread]


def latency(server: BenchServer, peers: list[str], *, rounds: int, samples: int) -> Section:
    found = {name: Delays() for name in (*OURS, *peers)}
    section = Section(
        f"Milliseconds from enqueue to start on an idle worker ({rounds} rounds of {samples}, of those that are "
        f"compared {4 * rounds})",
        ["", "median: best", "of rounds", "of all rounds", "p99: of rounds", "of all rounds"],
    )

    def measured(name: str, number: int) -> float | None:
        try:
            return found[name].add(delays_ms(name, server, samples))
        except PeerError as failed:
            section.notes.append(f"round {number + 1}: {failed}")
            return None

    for number in range(rounds):
        for name in found:
            measured(name, number)
    beside = [
        {name: measured(name, rounds + number) for name in ("dalston", *quickest(found, peers))}
        for number in range(3 * rounds)
    ]
    server.flush()
    section.rows = [[name, *delays.cells()] for name, delays in found.items() if delays.medians.values]
    section.targets = targets(found["dalston"], beside)
    return section


def quickest(found: dict[str, Delays], peers: list[str]) -> list[str]:
    """Of the peers: whoever starts a task first, and those that come near it."""
    best = {name: found[name].medians.best for name in peers if found[name].medians.values}
    return [name for name, delay in best.items() if delay * NEAR < min(best.values())]


def targets(ours: Delays, beside: list[dict[str, float | None]]) -> list[Target]:
    """`beside`: the medians of each round in which Dalston ran beside the quickest peers. The one that is most in front
    of us decides."""
    ratios: dict[str, list[float]] = {}
    for medians in beside:
        mine = medians["dalston"]
        for name, theirs in medians.items():
            if name != "dalston" and mine and theirs:
                ratios.setdefault(name, []).append(mine / theirs)
    targets = []
    if ratios:
        first = max(ratios, key=lambda name: statistics.median(ratios[name]))
        pairs, ratio = ratios[first], statistics.median(ratios[first])
        how = f"median of {len(pairs)} rounds beside each other, {min(pairs):.2f} to {max(pairs):.2f}"
        targets.append(Target(f"median {ratio:.2f} x {first}'s (target at most {MOST:g}; {how})", ratio <= MOST))
    if ours.tails.values:
        tail = ours.tails
        text = f"p99 {tail.median:.2f} ms (target under {P99_MS:g}; median of {len(tail.values)} rounds, {tail.spread})"
        targets.append(Target(text, tail.median < P99_MS))
    return targets

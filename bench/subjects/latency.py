"""Latency: from the call that enqueues a task to its first line, on an idle worker in another process."""

import tempfile
from pathlib import Path

from bench.harness.figures import Ratio, Rounds, Section, Target, percentile, turns
from bench.harness.processes import PeerError, report, started
from bench.harness.servers import BenchServer
from bench.peers import OURS

RIVAL = "huey"
"""The peer with the lowest latency."""
MAX_RATIO, MAX_P99_MS = 1.25, 3.0


class Delays:
    """Delays of one peer by round, in milliseconds."""

    def __init__(self) -> None:
        self.medians = Rounds(smaller_is_better=True)
        self.tails = Rounds(smaller_is_better=True)

    def add(self, delays: list[float], number: int) -> None:
        self.medians.add(percentile(delays, 0.5), number)
        self.tails.add(percentile(delays, 0.99), number)

    def cells(self) -> list[str]:
        middle, tail = self.medians, self.tails
        return [f"{middle.best:.2f}", f"{middle.median:.2f}", middle.spread, f"{tail.median:.2f}", tail.spread]


def latency(server: BenchServer, peers: list[str], *, rounds: int, samples: int) -> Section:
    peers = [name for name in peers if "_prefetch_" not in name]  # an idle worker holds nothing
    found = {name: Delays() for name in (*OURS[:2], *peers)}
    section = Section(
        f"Milliseconds from enqueue to start on an idle worker ({rounds} rounds of {samples}, of those without a "
        "target a third of that)",
        ["", "median: best", "of rounds", "of all rounds", "p99: of rounds", "of all rounds"],
    )
    compared = [name for name in found if name in ("dalston", RIVAL)]
    for number, name in turns(compared, [name for name in found if name not in compared], rounds):
        try:
            found[name].add(_delays_ms(name, server, samples), number)
        except PeerError as failed:
            section.notes.append(f"round {number + 1}: {failed}")
    server.flush()
    section.rows = [[name, *delays.cells()] for name, delays in found.items() if delays.medians.values]
    section.targets = targets(found["dalston"], found.get(RIVAL, Delays()))
    return section


def targets(ours: Delays, theirs: Delays) -> list[Target]:
    made = []
    if ratio := Ratio.between(ours.medians, theirs.medians):
        text = f"median {ratio.median:.2f} x {RIVAL}'s (target at most {MAX_RATIO:g}; {ratio})"
        made.append(Target(text, ratio.median <= MAX_RATIO))
    tail = ours.tails
    if tail.values:
        how = f"median of {len(tail.values)} rounds, {tail.spread}"
        made.append(Target(f"p99 {tail.median:.2f} ms (target under {MAX_P99_MS:g}; {how})", tail.median < MAX_P99_MS))
    return made


def _delays_ms(peer: str, server: BenchServer, samples: int) -> list[float]:
    server.flush()
    with tempfile.TemporaryDirectory(prefix="dalston-bench-") as folder:
        ready = Path(folder) / "ready"
        with (
            started(peer, "work", 1, redis_url=server.url, probe=f"latency:{samples}:{ready}") as worker,
            started(peer, "send", samples, ready, redis_url=server.url),
        ):
            return [delay / 1e6 for delay in report(peer, worker)["delays_ns"]]

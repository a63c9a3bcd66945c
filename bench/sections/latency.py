"""From the call that enqueues a task to its first line, on an idle worker."""

import tempfile
from pathlib import Path

from bench.harness.figures import Rounds, Section, Target, percentile
from bench.harness.processes import PeerError, report, started
from bench.harness.servers import BenchServer
from bench.peers import OURS


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


def latency(server: BenchServer, peers: list[str], *, rounds: int, samples: int) -> Section:
    names = [*OURS, *peers]
    medians = {name: Rounds(smaller_is_better=True) for name in names}
    tails = {name: Rounds(smaller_is_better=True) for name in names}
    section = Section(
        f"Milliseconds from enqueue to start on an idle worker (best of {rounds} rounds of {samples})",
        ["", "median", "of all rounds", "p99", "of all rounds"],
    )
    for number in range(rounds):
        for name in names:
            try:
                delays = delays_ms(name, server, samples)
            except PeerError as failed:
                section.notes.append(f"round {number + 1}: {failed}")
                continue
            medians[name].add(percentile(delays, 0.5))
            tails[name].add(percentile(delays, 0.99))
    server.flush()
    for name in names:
        if medians[name].values:
            middle, tail = medians[name], tails[name]
            section.rows.append([name, f"{middle.best:.2f}", middle.spread, f"{tail.best:.2f}", tail.spread])
    if medians["dalston"].values:
        theirs = {name: medians[name].best for name in peers if medians[name].values}
        if theirs:
            best = min(theirs, key=lambda name: theirs[name])
            ratio = medians["dalston"].best / theirs[best]
            section.targets.append(
                Target(f"median {ratio:.2f} x {best}'s, the quickest peer (target at most 1.2)", ratio <= 1.2)
            )
        tail = tails["dalston"]
        section.targets.append(Target(f"p99 {tail.best:.2f} ms (target under 3)", tail.best < 3))
    return section

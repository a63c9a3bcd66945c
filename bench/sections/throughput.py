"""How many no-op tasks one process starts and acknowledges in a second, one at a time and 32 at a time.

Everybody runs a few rounds in each way. Then Dalston and its fastest rivals run twice as many, one right after the
other, and the median of their ratios decides: the machine may be twice as fast in one minute as in the next.
"""

from bench.harness.figures import Rounds, Section
from bench.harness.processes import PeerError, run
from bench.harness.servers import BenchServer
from bench.peers import NOT_CONCURRENT, OURS
from bench.sections.contest import PING, Figures, Table, Way, contests_of, runners, verdict, without_target
from bench.sections.raw import ping_loop, pipelined_xadd

WARM = 50
SLACK = 150
"""Tasks beyond the measured ones, so that nobody is measured on an empty queue."""

CEILING = {
    ("dalston", 1): 16_000,
    ("dalston", 32): 70_000,
    ("dalston_sdk", 1): 40_000,
    ("dalston_sdk", 32): 45_000,
    ("dramatiq_ahead", 1): 9_000,
}
CEILING_OF_OTHERS = 6_000
"""Tasks per second that nobody exceeds here: how much must be enqueued for a round."""


def measure(peer: str, way: Way, server: BenchServer, seconds: float, figures: Figures) -> float:
    server.flush()
    with way.cores(server.pid):
        if peer == PING:
            figures.rate.add(ping_loop(server, seconds / 2))
            return figures.rate.values[-1]
        key = (peer, way.capacity)
        count = int((CEILING[key] if peer in OURS else CEILING.get(key, CEILING_OF_OTHERS)) * seconds)
        probe = f"throughput:{WARM}:{count}:{seconds}:{server.pid}"
        found = run(peer, server.url, "fill-and-work", WARM + count + SLACK, way.capacity, probe=probe)
    figures.rate.add(found["count"] / found["seconds"])
    figures.cpu_us.add(found["cpu_seconds"] / found["count"] * 1e6)
    return figures.rate.values[-1]


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
                failures.append(f"round {number + 1}, {way.title}: {failed}")
    contests = {way: contests_of(table, way, survivors) for way in Way}
    compared = [(peer, way) for way in Way for peer in runners(contests[way])]
    for number in range(2 * rounds):
        for peer, way in compared:
            figures = table[peer, way]
            try:
                figures.beside.append(measure(peer, way, server, seconds, figures))
            except PeerError as failed:
                figures.beside.append(None)
                failures.append(f"contest, round {number + 1}, {way.title}: {failed}")
    server.flush()
    section = Section(
        f"Tasks per second, one process, no-op tasks (best and median of {rounds} rounds, of those that are compared "
        f"{3 * rounds}; CPU of worker and server per task)",
        ["", *(head for way in Way for head in (way.title, "median", "CPU us"))],
        notes=failures,
    )
    for peer in [*OURS, *peers, PING]:
        cells = [table.get((peer, way), Figures()).cells() for way in Way]
        section.rows.append([peer, *(cell for each in cells for cell in each)])
    section.targets = [verdict(table, way, contest) for way in Way for contest in contests[way]]
    section.notes += [note for way in Way for note in without_target(table, way, contests[way])]
    section.notes.append(f"pipelined XADD: {xadd.best:,.0f} a second, median {xadd.median:,.0f}")
    return section

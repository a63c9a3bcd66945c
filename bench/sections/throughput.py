"""How many no-op tasks one process starts and acknowledges in a second, one at a time and 32 at a time."""

import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import redis

from bench.harness.cpu import apart
from bench.harness.figures import Rounds, Section, Target
from bench.harness.processes import PeerError, run
from bench.harness.servers import BenchServer
from bench.peers import NOT_CONCURRENT, OURS, TAKES_AHEAD

WARM = 50
SLACK = 150
"""Tasks beyond the measured ones, so that nobody is measured on an empty queue."""

FASTEST = {("dalston", 1): 12_000, ("dalston", 32): 50_000, ("dalston_sdk", 1): 10_000, ("dalston_sdk", 32): 30_000}
PEERS = 6_000
"""Tasks per second that nobody exceeds here: how much must be enqueued for a round."""


def ping_loop(server: BenchServer, seconds: float) -> float:
    client = redis.Redis.from_url(server.url)
    client.ping()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        client.ping()
        count += 1
    return count / (time.perf_counter() - start)


def pipelined_xadd(server: BenchServer, seconds: float) -> float:
    client = redis.Redis.from_url(server.url)
    payload: Any = {"m": b"x" * 200}
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        pipe = client.pipeline(transaction=False)
        for _ in range(500):
            pipe.xadd("bench:raw", payload)
        pipe.execute()
        count += 500
    return count / (time.perf_counter() - start)


@dataclass
class Figures:
    """What the rounds of one peer gave, at one capacity."""

    rate: Rounds = field(default_factory=Rounds)
    cpu_us: Rounds = field(default_factory=lambda: Rounds(smaller_is_better=True))  # worker and server, per task

    def cells(self) -> list[str]:
        if not self.rate.values:
            return ["-", "", ""]
        return [f"{self.rate.best:,.0f}", self.rate.spread, f"{self.cpu_us.best:,.0f}"]


def measure(peer: str, capacity: int, server: BenchServer, seconds: float, figures: Figures) -> None:
    server.flush()
    count = int(FASTEST.get((peer, capacity), PEERS) * seconds)
    probe = f"throughput:{WARM}:{count}:{seconds}:{server.pid}"
    found = run(peer, server.url, "fill-and-work", WARM + count + SLACK, capacity, probe=probe)
    figures.rate.add(found["count"] / found["seconds"])
    figures.cpu_us.add(found["cpu_seconds"] / found["count"] * 1e6)


def throughput(server: BenchServer, peers: list[str], survivors: set[str], *, rounds: int, seconds: float) -> Section:
    """`survivors`: the peers that keep the task when a worker is killed; Dalston is compared with them only."""
    ping, xadd = Rounds(), Rounds()
    figures = {(peer, capacity): Figures() for peer in [*OURS, *peers] for capacity in (1, 32)}
    failures: list[str] = []
    for number in range(rounds):
        with apart(server.pid):
            ping.add(ping_loop(server, seconds / 2))
        xadd.add(pipelined_xadd(server, seconds / 2))
        for (peer, capacity), found in figures.items():
            if capacity > 1 and peer in NOT_CONCURRENT:
                continue
            try:
                # one at a time, round trips are what counts. With many, threads of one core would not get into each
                # other's way, which is not how they are run
                with apart(server.pid) if capacity == 1 else nullcontext():
                    measure(peer, capacity, server, seconds, found)
            except PeerError as failed:
                failures.append(f"round {number + 1}: {failed}")
    server.flush()
    section = Section(
        f"Tasks per second, one process, no-op tasks (best of {rounds} rounds; CPU of worker and server per task)",
        ["", "1 at a time", "of all rounds", "CPU us", "32 at a time", "of all rounds", "CPU us"],
        notes=failures,
    )
    for peer in [*OURS, *peers]:
        section.rows.append([peer, *figures[peer, 1].cells(), *figures[peer, 32].cells()])
    for name, raw in (("(PING loop)", ping), ("(pipelined XADD)", xadd)):
        section.rows.append([name, f"{raw.best:,.0f}", raw.spread, "", "", "", ""])
    rates = {place: found.rate.best for place, found in figures.items() if found.rate.values}
    section.targets = _targets(rates, ping.best, survivors)
    return section


def _targets(rates: dict[tuple[str, int], float], ping: float, survivors: set[str]) -> list[Target]:
    targets = []
    for capacity, factor in ((1, 2.0), (32, 8.0)):
        ours = rates.get(("dalston", capacity), 0.0)
        theirs = {peer: rate for (peer, c), rate in rates.items() if c == capacity and peer in survivors}
        named = {"the fastest peer that survives": theirs}
        if theirs and max(theirs, key=lambda peer: theirs[peer]) in TAKES_AHEAD:
            usual = {peer: rate for peer, rate in theirs.items() if peer not in TAKES_AHEAD}
            named["the fastest of those with their own default for taking ahead"] = usual
        for whose, found in named.items():
            if found and ours:
                best = max(found, key=lambda peer: found[peer])
                ratio = ours / found[best]
                text = f"{capacity} at a time: {ratio:.1f} x {best}, {whose} (target {factor:.0f} x)"
                targets.append(Target(text, ratio >= factor))
    if ("dalston", 1) in rates:
        share = rates["dalston", 1] / ping
        targets.append(Target(f"1 at a time: {share:.2f} of a PING loop (target 0.5)", share > 0.5))
    return targets

"""How many no-op tasks one process starts and acknowledges in a second, one at a time and 32 at a time."""

import time
from typing import Any

import redis

from bench.harness.figures import Rounds, Section, Target
from bench.harness.processes import PeerError, run
from bench.harness.servers import BenchServer
from bench.peers import NOT_CONCURRENT, OURS

WARM = 50
SLACK = 150
"""Tasks beyond the measured ones, so that nobody is measured on an empty queue."""

COUNTS = {("dalston", 1): 12_000, ("dalston", 32): 30_000, ("dalston_sdk", 1): 6_000, ("dalston_sdk", 32): 20_000}
PEER_COUNT = 2_500


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


def rate(peer: str, capacity: int, server: BenchServer, seconds: float, count: int) -> float:
    server.flush()
    probe = f"throughput:{WARM}:{count}:{seconds}"
    measured = run(peer, server.url, "fill-and-work", WARM + count + SLACK, capacity, probe=probe)
    return float(measured["count"]) / float(measured["seconds"])


def throughput(server: BenchServer, peers: list[str], survivors: set[str], *, rounds: int, seconds: float) -> Section:
    """`survivors`: the peers that keep the task when a worker is killed; Dalston is compared with them only."""
    capacities = (1, 32)
    raw = {"PING loop": Rounds(), "pipelined XADD": Rounds()}
    rates = {(peer, capacity): Rounds() for peer in [*OURS, *peers] for capacity in capacities}
    failures: list[str] = []
    for number in range(rounds):
        raw["PING loop"].add(ping_loop(server, seconds / 2))
        raw["pipelined XADD"].add(pipelined_xadd(server, seconds / 2))
        for (peer, capacity), measured in rates.items():
            if capacity > 1 and peer in NOT_CONCURRENT:
                continue
            try:
                count = COUNTS.get((peer, capacity), PEER_COUNT)
                measured.add(rate(peer, capacity, server, seconds, count))
            except PeerError as failed:
                failures.append(f"round {number + 1}: {failed}")
    server.flush()

    section = Section(
        f"Tasks per second, one process, no-op tasks (best of {rounds} rounds)",
        ["", "1 at a time", "of all rounds", "32 at a time", "of all rounds"],
        notes=failures,
    )
    for peer in [*OURS, *peers]:
        row = [peer]
        for capacity in capacities:
            measured = rates[peer, capacity]
            row += [f"{measured.best:,.0f}", measured.spread] if measured.values else ["-", ""]
        section.rows.append(row)
    for name, measured in raw.items():
        section.rows.append([f"({name})", f"{measured.best:,.0f}", measured.spread, "", ""])
    section.targets = _targets(rates, raw["PING loop"].best, survivors)
    return section


def _targets(rates: dict[tuple[str, int], Rounds], ping: float, survivors: set[str]) -> list[Target]:
    targets = []
    for capacity, factor in ((1, 2.0), (32, 8.0)):
        ours = rates["dalston", capacity]
        theirs = {p: m.best for (p, c), m in rates.items() if c == capacity and p in survivors and m.values}
        if theirs and ours.values:
            best = max(theirs, key=lambda peer: theirs[peer])
            ratio = ours.best / theirs[best]
            text = f"{capacity} at a time: {ratio:.1f} x {best}, the fastest peer that survives (target {factor:.0f} x)"
            targets.append(Target(text, ratio >= factor))
    if rates["dalston", 1].values:
        share = rates["dalston", 1].best / ping
        targets.append(Target(f"1 at a time: {share:.2f} of a PING loop (target 0.5)", share > 0.5))
    return targets

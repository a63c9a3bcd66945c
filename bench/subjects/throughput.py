"""Tasks per second: how many no-op tasks one process starts and acknowledges, one at a time and 32 at a time."""

import time
from contextlib import nullcontext
from dataclasses import dataclass, field

import redis

from bench.harness.figures import Ratio, Rounds, Section, Target, turns
from bench.harness.processes import PeerError, apart, report, started
from bench.harness.servers import BenchServer
from bench.peers import LOSES_TASKS, ONE_AT_A_TIME, OURS, PYTHON_PEERS

TITLES = {1: "1 at a time", 32: "32 at a time"}
PING = "(PING loop)"
"""For comparison with one task at a time: round trips of redis-py, one after the other."""

WARM_UP, NODE_WARM_UP = 50, 5_000
"""Tasks before the measured ones. Node compiles what it runs often, and takes some thousand tasks for that."""
SLACK = 150
"""Tasks beyond the measured ones, so that no peer is measured on an empty queue."""
CEILING = {
    ("dalston", 1): 16_000,
    ("dalston", 32): 70_000,
    ("dalston_engine", 1): 16_000,
    ("dalston_engine", 32): 45_000,
    ("dalston_engine_prefetch_8", 1): 40_000,
    ("dramatiq_prefetch_100", 1): 9_000,
    ("bullmq", 32): 25_000,
}
OTHER_CEILING = 6_000
"""Tasks per second that no peer exceeds here: how much must be enqueued for a round."""


@dataclass(frozen=True)
class Goal:
    """`ours` is at least `factor` times as fast as the rival that comes nearest. The first rival, expected to be that
    one, runs beside ours in every round."""

    capacity: int
    ours: str
    rivals: tuple[str, ...]
    factor: float


CRASH_SAFE = tuple(name for name in PYTHON_PEERS if name not in LOSES_TASKS)
GOALS = (
    Goal(1, "dalston_engine_prefetch_8", ("dramatiq_prefetch_100", *CRASH_SAFE), 2.0),
    Goal(1, "dalston", ("taskiq",), 1.4),
    Goal(1, "dalston_engine", ("taskiq",), 1.0),
    Goal(1, "dalston", ("bullmq",), 1.0),
    Goal(1, "dalston_engine", ("bullmq",), 1.0),
    Goal(32, "dalston", ("dramatiq",), 8.0),
    Goal(32, "dalston", ("bullmq",), 1.0),
    Goal(32, "dalston_engine", ("bullmq",), 1.0),
)


@dataclass
class Figures:
    """Figures of one peer at one capacity, by round."""

    rate: Rounds = field(default_factory=Rounds)
    cpu_us: Rounds = field(default_factory=lambda: Rounds(smaller_is_better=True))  # worker and server, per task

    def cells(self) -> list[str]:
        if not self.rate.values:
            return ["-", "", ""]
        cpu = f"{self.cpu_us.best:,.0f}" if self.cpu_us.values else ""
        return [f"{self.rate.best:,.0f}", f"{self.rate.median:,.0f}", cpu]


Table = dict[tuple[str, int], Figures]


def throughput(server: BenchServer, peers: list[str], *, rounds: int, seconds: float) -> Section:
    table: Table = {}
    section = Section(
        f"Tasks per second, one process, no-op tasks (best and median of {rounds} rounds, of those without a target a "
        "third of that; CPU of worker and server per task)",
        ["", *(head for title in TITLES.values() for head in (title, "median", "CPU us"))],
    )
    for capacity, title in TITLES.items():
        compared, others = contestants(capacity, peers)
        for number, peer in turns(compared, others, rounds):
            figures = table.setdefault((peer, capacity), Figures())
            try:
                _measure(peer, capacity, server, seconds, figures, number)
            except PeerError as failed:
                section.notes.append(f"round {number + 1}, {title}: {failed}")
    server.flush()
    for peer in [*OURS, *peers, PING]:
        cells = [table.get((peer, capacity), Figures()).cells() for capacity in TITLES]
        section.rows.append([peer, *(cell for each in cells for cell in each)])
    section.targets = [target for goal in GOALS if (target := verdict(table, goal))]
    if share := Ratio.between(_rates(table, "dalston", 1), _rates(table, PING, 1)):
        section.notes.append(f"{TITLES[1]}: dalston {share.median:.2f} x {PING} (no target; {share})")
    return section


def contestants(capacity: int, peers: list[str]) -> tuple[list[str], list[str]]:
    """Ours and the first rivals of the goals, and the other peers."""
    able = [peer for peer in (*OURS, *peers) if capacity == 1 or peer not in ONE_AT_A_TIME]
    goals = [goal for goal in GOALS if goal.capacity == capacity]
    named = {*OURS, *(goal.rivals[0] for goal in goals)}
    compared = [peer for peer in able if peer in named]
    return compared + [PING] * (capacity == 1), [peer for peer in able if peer not in named]


def verdict(table: Table, goal: Goal) -> Target | None:
    """By the rival that comes nearest; None if nothing was measured."""
    ours = _rates(table, goal.ours, goal.capacity)
    ratios = {name: Ratio.between(ours, _rates(table, name, goal.capacity)) for name in goal.rivals}
    found = {name: ratio for name, ratio in ratios.items() if ratio}
    if not found:
        return None
    name, ratio = min(found.items(), key=lambda each: each[1].median)
    text = f"{goal.ours} {ratio.median:.2f} x {name} (target {goal.factor:g}; {ratio})"
    return Target(f"{TITLES[goal.capacity]}: {text}", ratio.median >= goal.factor)


def _rates(table: Table, peer: str, capacity: int) -> Rounds:
    return table.get((peer, capacity), Figures()).rate


def _measure(peer: str, capacity: int, server: BenchServer, seconds: float, figures: Figures, number: int) -> None:
    server.flush()
    # One at a time, round trips are what counts. With many, the threads would have to share one core, which is not how
    # they are run.
    with apart(server.pid) if capacity == 1 else nullcontext():
        if peer == PING:
            figures.rate.add(_ping_loop(server, seconds / 2), number)
            return
        warm_up = NODE_WARM_UP if peer == "bullmq" else WARM_UP
        count = int(CEILING.get((peer, capacity), OTHER_CEILING) * seconds)
        action = ("fill-and-work", warm_up + count + SLACK, capacity)
        probe = f"throughput:{warm_up}:{count}:{seconds}:{server.pid}"
        with started(peer, *action, redis_url=server.url, probe=probe) as process:
            found = report(peer, process)
    figures.rate.add(found["count"] / found["seconds"], number)
    figures.cpu_us.add(found["cpu_seconds"] / found["count"] * 1e6)


def _ping_loop(server: BenchServer, seconds: float) -> float:
    client = redis.Redis.from_url(server.url)
    client.ping()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        client.ping()
        count += 1
    return count / (time.perf_counter() - start)

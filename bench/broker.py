"""The broker beside other Redis queues: tasks per second, latency, depth, memory, and what a SIGKILL does."""

import argparse
import json
import os
import platform
import time
from datetime import UTC, datetime
from pathlib import Path

from bench.harness.figures import Section
from bench.harness.servers import BenchServer, private_server
from bench.peers import NAMES, OURS, TAKES_AHEAD, settings_of
from bench.sections.depth import depth
from bench.sections.latency import latency
from bench.sections.memory import memory
from bench.sections.survival import LOSES, survival
from bench.sections.throughput import throughput
from bench.sections.wakeups import wakeups

SECTIONS = ("survival", "throughput", "latency", "wakeups", "depth", "memory")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench broker", description=__doc__)
    parser.add_argument("--small", action="store_true", help="few rounds and low counts: seconds, not minutes")
    parser.add_argument("--peers", default=",".join(NAMES), help="which peers, by name; empty for none")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"which sections: {','.join(SECTIONS)}")
    parser.add_argument("--rounds", type=int, help="rounds of throughput and latency")
    parser.add_argument("--json", type=Path, help="also write the tables to this file")
    options = parser.parse_args(arguments)
    options.peers = [name for name in options.peers.split(",") if name]
    options.only = [name for name in options.only.split(",") if name]
    for given, known in ((options.peers, NAMES), (options.only, SECTIONS)):
        if unknown := set(given) - set(known):
            parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    return options


def measure(server: BenchServer, options: argparse.Namespace) -> list[Section]:
    small, peers = options.small, options.peers
    rounds = options.rounds or (1 if small else 3)
    survivors = set(peers) - LOSES
    done: list[Section] = []

    def add(section: Section) -> None:
        section.show()
        done.append(section)

    if "survival" in options.only and peers:
        section, survivors = survival(
            server, [peer for peer in peers if peer not in TAKES_AHEAD], patience_s=10 if small else 20
        )
        add(section)
    if "throughput" in options.only:
        seconds = 0.3 if small else 0.8
        add(throughput(server, peers, survivors - {"dalston"} - TAKES_AHEAD, rounds=rounds, seconds=seconds))
    if "latency" in options.only:
        add(latency(server, peers, rounds=rounds, samples=50 if small else 150))
    if "wakeups" in options.only:
        add(wakeups(server, engines=20 if small else 100, appends=20 if small else 50))
    if "depth" in options.only:
        add(depth(server, waiting=20_000 if small else 1_000_000, pending=2_000 if small else 100_000))
    if "memory" in options.only:
        add(memory(server, tasks=2_000 if small else 50_000))
    return done


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    start = time.monotonic()
    with private_server() as server:
        machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, Valkey {server.version()}, AOF everysec"
        print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine}, load {os.getloadavg()[0]:.1f}")
        sections = measure(server, options)
    print("\nHow each is configured:")
    for name in (*OURS, *options.peers):
        print(f"  {settings_of(name)}")
    print(f"{time.monotonic() - start:.0f} s")
    if options.json:
        options.json.write_text(
            json.dumps({"machine": machine, "sections": [vars(s) for s in sections]}, default=vars, indent=1)
        )


if __name__ == "__main__":
    main()

"""The broker beside other Redis queues: tasks per second, latency, depth, memory, and what a SIGKILL does."""

import argparse
from pathlib import Path

from bench.harness.malloc import JEMALLOC, LIBC, environment_for, malloc_of
from bench.harness.run import Run
from bench.harness.servers import BenchServer, private_server
from bench.peers import NAMES, OURS, settings_of
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
    rounds = "rounds of throughput; of those that are compared three times as many, of latency half as many"
    parser.add_argument("--rounds", type=int, help=rounds)
    malloc = "what the server allocates with (%(default)s, fetched from Debian if it is not here)"
    parser.add_argument("--malloc", choices=(JEMALLOC, LIBC), default=JEMALLOC, help=malloc)
    parser.add_argument("--json", type=Path, help="also write the tables to this file")
    options = parser.parse_args(arguments)
    options.peers = [name for name in options.peers.split(",") if name]
    options.only = [name for name in options.only.split(",") if name]
    for given, known in ((options.peers, NAMES), (options.only, SECTIONS)):
        if unknown := set(given) - set(known):
            parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    return options


def measure(server: BenchServer, options: argparse.Namespace, run: Run) -> None:
    small, peers = options.small, options.peers
    rounds = options.rounds or (1 if small else 5)
    survivors = set(peers) - LOSES
    if "survival" in options.only and peers:
        section, survivors = survival(server, peers, patience_s=10 if small else 20)
        run.add(section)
    if "throughput" in options.only:
        run.add(throughput(server, peers, survivors - {"dalston"}, rounds=rounds, seconds=0.2 if small else 0.8))
    if "latency" in options.only:
        run.add(latency(server, peers, rounds=max(1, rounds // 2), samples=30 if small else 150))
    if "wakeups" in options.only:
        run.add(wakeups(server, engines=10 if small else 100, appends=10 if small else 50))
    if "depth" in options.only:
        run.add(depth(server, waiting=3_000 if small else 1_000_000, pending=500 if small else 100_000))
    if "memory" in options.only:
        run.add(memory(server, tasks=2_000 if small else 50_000))


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    # without peers nothing is compared, so nothing need be fetched for it
    with private_server(environment_for(options.malloc, fetch=bool(options.peers))) as server:
        malloc = malloc_of(server.pid)
        run = Run(f"Valkey {server.version()} with AOF everysec on the malloc of {malloc}")
        if malloc != options.malloc:
            print(f"Not on {options.malloc}: see bench/harness/malloc.py.")
        measure(server, options, run)
    print("\nHow each is configured:")
    for name in (*OURS, *options.peers):
        print(f"  {settings_of(name)}")
    run.finish(options.json)


if __name__ == "__main__":
    main()

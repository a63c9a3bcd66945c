"""The broker and other Redis queues: tasks per second, latency, depth, memory, and tasks of a killed worker."""

import argparse

from bench.harness.processes import peer_python
from bench.harness.run import Command, Run
from bench.harness.servers import BenchServer, private_valkey
from bench.peers import OURS, PEERS, settings_of
from bench.subjects.depth import depth, memory
from bench.subjects.latency import latency
from bench.subjects.survival import survival
from bench.subjects.throughput import throughput

SUBJECTS = ("survival", "throughput", "latency", "depth", "memory")


def measure(server: BenchServer, options: argparse.Namespace, run: Run) -> None:
    small, peers = options.small, options.peers
    rounds = options.rounds or (1 if small else 12)
    if "survival" in options.only and peers:
        run.add(survival(server, peers, timeout_s=10 if small else 20))
    if "throughput" in options.only:
        run.add(throughput(server, peers, rounds=rounds, seconds=0.2 if small else 0.8))
    if "latency" in options.only:
        run.add(latency(server, peers, rounds=rounds, samples=30 if small else 150))
    if "depth" in options.only:
        run.add(depth(server, waiting=3_000 if small else 1_000_000, pending=500 if small else 100_000))
    if "memory" in options.only:
        run.add(memory(server, tasks=2_000 if small else 50_000))


def main(arguments: list[str] | None = None) -> None:
    command = Command("broker", __doc__)
    command.add_list("peers", PEERS, "which peers; empty for none")
    command.add_list("only", SUBJECTS, "which subjects")
    command.add_argument("--rounds", type=int, help="of throughput and latency (12)")
    options = command.parse(arguments)
    if options.peers:
        peer_python()
    with private_valkey() as server:
        run = Run(f"Valkey {server.version()} with AOF everysec")
        measure(server, options, run)
    print("\nHow each is configured:")
    for text in dict.fromkeys(settings_of(name) for name in (*OURS, *options.peers)):
        print(f"  {text}")
    run.finish(options.json)


if __name__ == "__main__":
    main()

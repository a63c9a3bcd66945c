"""From submit to completed in Postgres, beside Celery with django-celery-results and Procrastinate."""

import argparse
from pathlib import Path

from bench.harness.run import Run
from bench.pipelines import NAMES
from bench.sections.pipeline import pipeline


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="./dev bench pipeline", description=__doc__)
    parser.add_argument("--small", action="store_true", help="one round of few tasks")
    parser.add_argument("--peers", default=",".join(NAMES), help="which peers, by name; empty for none")
    parser.add_argument("--rounds", type=int, help="of each system; the table shows the best")
    parser.add_argument("--tasks", type=int, help="in a round")
    parser.add_argument("--json", type=Path, help="also write the table to this file")
    options = parser.parse_args(arguments)
    peers = [name for name in options.peers.split(",") if name]
    if unknown := set(peers) - set(NAMES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(NAMES)}")
    run = Run("Postgres with fsync, Valkey with AOF everysec")
    rounds, tasks = options.rounds or (1 if options.small else 3), options.tasks or (200 if options.small else 3_000)
    run.add(pipeline(peers, rounds=rounds, tasks=tasks))
    run.finish(options.json)


if __name__ == "__main__":
    main()

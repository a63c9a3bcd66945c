"""Requests per second of one web process, beside a bare django-ninja view that inserts one row."""

import argparse
from pathlib import Path

from bench.apis.rounds import api
from bench.harness.run import Run


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="./dev bench api", description=__doc__)
    parser.add_argument("--small", action="store_true", help="one round of few requests")
    parser.add_argument("--rounds", type=int, help="of each kind of request")
    parser.add_argument("--requests", type=int, help="in a round")
    parser.add_argument("--connections", type=int, default=8, help="kept alive, each with one request at a time (8)")
    parser.add_argument("--json", type=Path, help="also write the tables to this file")
    options = parser.parse_args(arguments)
    run = Run("Postgres with fsync, Valkey with AOF everysec")
    small = options.small
    sections = api(
        rounds=options.rounds or (1 if small else 4),
        requests=options.requests or (100 if small else 1_500),
        connections=options.connections,
        batches=1 if small else 5,
    )
    for section in sections:
        run.add(section)
    run.finish(options.json)


if __name__ == "__main__":
    main()

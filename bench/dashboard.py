"""The dashboard over a full queue with 50 viewers: how soon a change is on the screen, and what it costs."""

import argparse
from pathlib import Path

from bench.dashboards.fill_redis import Size
from bench.dashboards.measure import dashboard
from bench.harness.run import Run

FULL = Size(waiting=1_000_000, pending=100_000, engines=200, viewers=50, history=50_000, letters=5_000)
SMALL = Size(waiting=2_000, pending=400, engines=16, viewers=6, history=500, letters=100)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench dashboard", description=__doc__)
    parser.add_argument("--small", action="store_true", help="few of everything, for some seconds")
    parser.add_argument("--seconds", type=float, help="how long changes are made")
    parser.add_argument("--json", type=Path, help="also write the tables to this file")
    options = parser.parse_args(arguments)
    run = Run("Postgres, Valkey with AOF everysec, one web process")
    for section in dashboard(SMALL if options.small else FULL, options.seconds or (5 if options.small else 40)):
        run.add(section)
    run.finish(options.json)
    return 0 if options.small or all(target.kept for section in run.sections for target in section.targets) else 1


if __name__ == "__main__":
    raise SystemExit(main())

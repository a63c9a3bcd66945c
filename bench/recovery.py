"""Recovery: killed and stopped engines, lost nodes, fifty engines at once, and a log that is written at full speed."""

import argparse
from pathlib import Path

from bench.harness.run import Run
from bench.harness.servers import private_server
from bench.recoveries.crowd import crowd
from bench.recoveries.engine_killed import engine_killed
from bench.recoveries.engine_stopped import engine_stopped
from bench.recoveries.node_gone import node_gone
from bench.recoveries.spam import spam

SECTIONS = ("killed", "stopped", "gone", "crowd", "spam")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench recovery", description=__doc__)
    parser.add_argument("--small", action="store_true", help="few rounds: a minute, not eight")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"which sections: {','.join(SECTIONS)}")
    parser.add_argument("--json", type=Path, help="also write the tables to this file")
    options = parser.parse_args(arguments)
    options.only = [name for name in options.only.split(",") if name]
    if unknown := set(options.only) - set(SECTIONS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(SECTIONS)}")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    small = options.small
    with private_server() as server:
        run = Run(f"Valkey {server.version()} with AOF everysec")
        url = server.database(0)
        parts = {
            "killed": lambda: engine_killed(url, 5 if small else 40),
            "stopped": lambda: engine_stopped(url, 2 if small else 12),
            "gone": lambda: node_gone(url, 1 if small else 3, 2 if small else 10),
            "crowd": lambda: crowd(url, 10 if small else 30),
            "spam": lambda: spam(url, 1 if small else 5),
        }
        for name in options.only:
            run.add(parts[name]())
    run.finish(options.json)
    return 0 if all(target.kept for section in run.sections for target in section.targets) else 1


if __name__ == "__main__":
    raise SystemExit(main())

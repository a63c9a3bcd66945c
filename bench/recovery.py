"""Recovery: killed and stopped engines, lost nodes, fifty engines at once, and a log that is written at full speed."""

import argparse
import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from bench.harness.figures import Section
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
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} cores, Python {platform.python_version()}")
    done: list[Section] = []
    with private_server() as server:
        url = server.database(0)
        parts = {
            "killed": lambda: engine_killed(url, 5 if small else 40),
            "stopped": lambda: engine_stopped(url, 2 if small else 12),
            "gone": lambda: node_gone(url, 1 if small else 3, 2 if small else 10),
            "crowd": lambda: crowd(url, 10 if small else 30),
            "spam": lambda: spam(url, 1 if small else 5),
        }
        for name in options.only:
            done.append(parts[name]())
            done[-1].show()
    if options.json:
        tables = [
            {"title": s.title, "head": s.head, "rows": s.rows, "targets": [str(t) for t in s.targets]} for s in done
        ]
        options.json.write_text(json.dumps(tables, indent=1, ensure_ascii=False))
    return 0 if all(target.kept for section in done for target in section.targets) else 1


if __name__ == "__main__":
    raise SystemExit(main())

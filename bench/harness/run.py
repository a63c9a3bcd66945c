"""One run of a benchmark: its command line, its printed sections, and the JSON file of all sections."""

import argparse
import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench.harness.figures import Section


class Command(argparse.ArgumentParser):
    """`./dev bench NAME`, with the options that all benchmarks have."""

    def __init__(self, name: str, description: str | None) -> None:
        super().__init__(prog=f"./dev bench {name}", description=description)
        self.lists: dict[str, Sequence[str]] = {}
        self.add_argument("--small", action="store_true", help="few rounds and low counts: seconds, not minutes")
        self.add_argument("--json", type=Path, help="also write the tables to this file")

    def add_list(self, option: str, known: Sequence[str], help_text: str) -> None:
        """An option with some of the known names; without it, all of them."""
        self.lists[option] = known
        names = ",".join(known)
        self.add_argument(f"--{option}", default=names, help=f"{help_text}: {names}")

    def parse(self, arguments: list[str] | None) -> argparse.Namespace:
        options = self.parse_args(arguments)
        for option, known in self.lists.items():
            chosen = [name for name in getattr(options, option).split(",") if name]
            if unknown := set(chosen) - set(known):
                self.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(known)}")
            setattr(options, option, chosen)
        return options


class Run:
    def __init__(self, servers: str) -> None:
        self.started = time.monotonic()
        self.at = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
        self.machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {servers}"
        self.sections: list[Section] = []
        print(f"{self.at}, {self.machine}, load {os.getloadavg()[0]:.1f}", flush=True)

    def add(self, section: Section) -> None:
        section.show()
        self.sections.append(section)

    @property
    def kept_all_targets(self) -> bool:
        return all(target.kept for section in self.sections for target in section.targets)

    def finish(self, file: Path | None) -> None:
        print(f"\n{time.monotonic() - self.started:.0f} s")
        if file:
            kept = {"at": self.at, "machine": self.machine, "sections": [asdict(section) for section in self.sections]}
            file.write_text(json.dumps(kept, indent=1) + "\n")

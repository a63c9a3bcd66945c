"""One run of a benchmark: says where and when, shows each section as it comes, and keeps them all."""

import json
import os
import platform
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench.harness.figures import Section


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

    def finish(self, file: Path | None) -> None:
        print(f"\n{time.monotonic() - self.started:.0f} s")
        if file:
            kept = {"at": self.at, "machine": self.machine, "sections": [asdict(section) for section in self.sections]}
            file.write_text(json.dumps(kept, indent=1) + "\n")

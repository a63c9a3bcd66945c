"""An engine that writes 200 MB to its log at full speed: as fast as into a plain file, and within its disk limit?"""

import contextlib
import subprocess
import sys
import time
from pathlib import Path

from bench.harness.figures import Rounds, Section, Target
from bench.recoveries.node import LIGHT, Fleet

MEGABYTES = 200
LOGS = {"max_mib": 4, "keep": 2}
LIMIT = LOGS["max_mib"] * (LOGS["keep"] + 1) << 20
BLOCKS = 4096 * (LOGS["keep"] + 1)  # a file takes whole blocks


def spam(redis_url: str, rounds: int) -> Section:
    plain, logged = Rounds(smaller_is_better=True), Rounds(smaller_is_better=True)
    peaks, looks = [], []
    for _ in range(rounds):
        fleet = Fleet(redis_url)
        try:
            plain.add(_plain(fleet.folder / "plain"))
            seconds, peak, count = _logged(fleet)
            logged.add(seconds)
            peaks.append(peak)
            looks.append(count)
        finally:
            fleet.close()
    share = plain.best / logged.best
    section = Section(f"{MEGABYTES} MB of output at full speed", ["", "best", "spread"])
    section.rows.append(["into a plain file", f"{plain.best:.3f} s", plain.spread])
    section.rows.append(["as an engine", f"{logged.best:.3f} s", logged.spread])
    section.targets += [
        Target(f"not slower than half of a plain file (it is {share:.2f} of its speed)", share > 0.5),
        Target(f"disk at most {_mib(max(peaks))}, limit {_mib(LIMIT)}", max(peaks) <= LIMIT + BLOCKS),
    ]
    section.notes.append(f"Disk is what the log folder has in blocks, looked at {sum(looks)} times, each millisecond.")
    return section


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.2f} MiB"


def _plain(path: Path) -> float:
    with path.open("wb") as output:
        argv = [sys.executable, "-S", "-E", str(LIGHT), "plain", str(MEGABYTES)]
        done = subprocess.run(argv, stdout=output, stderr=subprocess.PIPE, check=True)
    path.unlink()
    return float(done.stderr)


def _logged(fleet: Fleet) -> tuple[float, int, int]:
    """Seconds, the most disk from before it writes until a second after, and how often we looked."""
    answer = fleet.folder / "seconds"
    node = fleet.node("spam", logs=LOGS)
    node.engine("spam", ["python", "-S", "-E", str(LIGHT), "spam", str(MEGABYTES), str(answer)])
    node.start()
    folder = node.folder / "s" / "logs"
    peak, looks, ends = 0, 0, None
    while ends is None or time.monotonic() < ends:
        peak = max(peak, _disk(folder))
        looks += 1
        if ends is None and answer.exists() and answer.read_text():
            ends = time.monotonic() + 1.0
        time.sleep(0.001)
    return float(answer.read_text()), peak, looks


def _disk(folder: Path) -> int:
    """Rotation may take a file away while we look."""
    used = 0
    for file in folder.glob("*"):
        with contextlib.suppress(FileNotFoundError):
            used += file.stat().st_blocks * 512
    return used

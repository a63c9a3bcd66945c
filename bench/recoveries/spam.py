"""An engine that writes 200 MB to its log at full speed: as fast as into a plain file, and within its disk limit?"""

import contextlib
import subprocess
import sys
import time
from pathlib import Path

from bench.harness.figures import Rounds, Section, Target
from bench.recoveries.node import LIGHT, Stage
from supervisor.spool import LIMIT

MEGABYTES = 200
LOGS = {"max_mib": 4, "keep": 2}


def spam(redis_url: str, rounds: int) -> Section:
    plain, logged = Rounds(smaller_is_better=True), Rounds(smaller_is_better=True)
    peaks, rests = [], []
    for _ in range(rounds):
        stage = Stage(redis_url)
        try:
            plain.add(_plain(stage.folder / "plain"))
            seconds, peak, rest = _logged(stage)
            logged.add(seconds)
            peaks.append(peak)
            rests.append(rest)
        finally:
            stage.close()
    limit = (LOGS["max_mib"] * (LOGS["keep"] + 1) << 20) + LIMIT
    share = plain.best / logged.best
    section = Section(f"{MEGABYTES} MB of output at full speed", ["", "best", "spread"])
    section.rows.append(["into a plain file", f"{plain.best:.3f} s", plain.spread])
    section.rows.append(["as an engine", f"{logged.best:.3f} s", logged.spread])
    section.targets += [
        Target(f"not slower than half of a plain file (it is {share:.2f} of its speed)", share > 0.5),
        Target(f"disk a fifth of a second later {max(rests) >> 20} MiB, limit {limit >> 20} MiB", max(rests) <= limit),
    ]
    section.notes.append(f"At most {max(peaks) >> 20} MiB in between: the log is looked at 20 times a second.")
    return section


def _plain(path: Path) -> float:
    with path.open("wb") as output:
        argv = [sys.executable, "-S", "-E", str(LIGHT), "plain", str(MEGABYTES)]
        done = subprocess.run(argv, stdout=output, stderr=subprocess.PIPE, check=True)
    path.unlink()
    return float(done.stderr)


def _logged(stage: Stage) -> tuple[float, int, int]:
    """Seconds, the most disk while it writes, and the disk that it uses soon after."""
    answer = stage.folder / "seconds"
    node = stage.node("spam", logs=LOGS)
    node.engine("spam", ["python", "-S", "-E", str(LIGHT), "spam", str(MEGABYTES), str(answer)])
    node.start()
    peak = 0
    while not (answer.exists() and answer.read_text()):
        time.sleep(0.005)
        peak = max(peak, _disk(node.folder / "s" / "logs"))
    time.sleep(0.2)  # a few looks of the log thread
    return float(answer.read_text()), peak, _disk(node.folder / "s" / "logs")


def _disk(folder: Path) -> int:
    """Rotation may take a file away while we look."""
    used = 0
    for file in folder.glob("*"):
        with contextlib.suppress(FileNotFoundError):
            used += file.stat().st_blocks * 512
    return used

"""`./dev bench recovery` runs and its targets are met, in its small form."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_recovery_bench_runs(tmp_path: Path) -> None:
    table = tmp_path / "figures.json"
    argv = [sys.executable, "bench/recovery.py", "--small", "--only", "killed,stopped,spam", "--json", str(table)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "kill -9 of an engine mid-task" in table.read_text()

"""`dalston-manage --env-file FILE`: the variables of a unit's EnvironmentFile, for commands by hand."""

import subprocess
import sys
from pathlib import Path

import pytest

from dalston_site.manage import read_env_file
from tests.conftest import ROOT


def test_lines_are_read_as_systemd_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "server.env"
    file.write_text(
        "# a comment\n; another\n\nA=1\nB='two words'\nC=\"a'b\"\nD=\nE=postgres://h/d?a=b&c=$d\n  F=x y  \n"
    )
    assert read_env_file(file) == {
        "A": "1", "B": "two words", "C": "a'b", "D": "", "E": "postgres://h/d?a=b&c=$d", "F": "x y",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [("A=1\nsecret\n", "line 2: expected NAME=value"), ("A='secret\n", "line 1: a quote is not closed")],
)
def test_a_line_that_cannot_be_read_is_named_and_not_shown(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "server.env"
    file.write_text(text)
    with pytest.raises(SystemExit) as left:
        read_env_file(file)
    assert why in str(left.value) and "secret" not in str(left.value)


def test_a_command_runs_with_the_file_and_a_missing_file_is_named(tmp_path: Path) -> None:
    def manage(*arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "manage.py", "--env-file", *arguments]
        return subprocess.run(argv, cwd=ROOT, env={"PATH": "/usr/bin"}, capture_output=True, text=True, check=False)

    file = tmp_path / "server.env"
    file.write_text("DALSTON_DEV=1\nDALSTON_LOG_LEVEL=LOUD\n")
    assert "DALSTON_LOG_LEVEL is 'LOUD'" in manage(str(file), "check").stderr
    missing = manage(str(tmp_path / "none"), "check")
    assert missing.returncode == 1 and missing.stderr.endswith("can't be read: No such file or directory\n")
    assert "needs a file" in manage().stderr

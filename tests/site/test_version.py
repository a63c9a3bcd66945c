"""Each command reports its version."""

import subprocess
import sys
import tomllib

import pytest

from tests.conftest import ROOT


@pytest.mark.parametrize(
    "arguments", [["manage.py", "--version"], ["manage.py", "version"], ["-m", "engines.sdk", "--version"]]
)
def test_the_version_of_the_project_is_shown(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    written = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert done.stdout == f"dalston {written}\n"

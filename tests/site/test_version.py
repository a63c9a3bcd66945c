"""Each command reports its version."""

import subprocess
import sys
import tomllib

import pytest

from tests.conftest import ROOT


@pytest.mark.parametrize(
    "command",
    [
        "python manage.py --version",
        "python manage.py version",
        "python manage.py runsupervisor --version",
        "python -m dalston_site.web --version",
        "python -m dalston_site.up --version",
        "python -m engines.sdk --version",
        "./dev --version",
    ],
)
def test_the_version_of_the_project_is_shown(command: str) -> None:
    argv = [sys.executable if word == "python" else word for word in command.split()]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    written = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert done.stdout == f"dalston {written}\n"

"""Environments that hold what a role of a machine needs and nothing else, made of the wheels and the locks."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT

PYTHON = Path(sys.base_prefix, "bin", "python3")


def run(*argv: str | Path, cwd: Path = Path("/"), env: dict[str, str] | None = None) -> str:
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (argv, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `./dev build` makes."""
    folder = tmp_path_factory.mktemp("release") / "dist"
    run("/bin/sh", ROOT / "dev", "build", folder)
    return folder


@pytest.fixture(scope="session")
def installed(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The `bin` of a role's environment, installed as docs/operate/deploy.md says: installed("server")."""
    made: dict[str, Path] = {}

    def install(role: str) -> Path:
        if role not in made:
            made[role] = tmp_path_factory.mktemp(role) / "bin"
            run(PYTHON, "-m", "venv", made[role].parent)
            pip = (made[role] / "python", "-m", "pip", "install", "--quiet")
            if role == "client":
                run(*pip, *release.glob("dalston_client-*.whl"))
            else:
                run(*pip, "--require-hashes", "-r", release / f"requirements-{role}.lock")
                run(*pip, "--no-deps", *release.glob("dalston-*.whl"))
        return made[role]

    return install

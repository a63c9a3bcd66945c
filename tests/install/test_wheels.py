"""The wheels hold every file that a running Dalston needs, and nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT

MOVED = {"templates/": "dalston_site/templates/", "static/": "dalston_site/static/"}
PACKAGES = ("dalston_site/", "dalston_queue/", "engines/", "supervisor/", *MOVED)


def built(project: Path, folder: Path) -> set[str]:
    argv = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), str(project)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def tracked(*folders: str) -> set[str]:
    """The files that git has, or would add."""
    argv = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *folders]
    listed = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {name for name in listed.split("\0") if name and (ROOT / name).exists()}


def test_the_wheel_of_the_server_has_each_file_of_its_packages(tmp_path: Path) -> None:
    wanted = set()
    for name in tracked(*PACKAGES):
        folder = next((source for source in MOVED if name.startswith(source)), "")
        wanted.add(name.replace(folder, MOVED[folder], 1) if folder else name)
    found = built(ROOT, tmp_path)
    assert found == wanted
    for suffix in (".html", ".js", ".css", ".lua", ".sql", "0001_initial.py", "/demo/engine.yaml", "/models.yaml"):
        assert [name for name in found if name.endswith(suffix)], suffix


def test_the_wheel_of_the_client_has_its_package_only(tmp_path: Path) -> None:
    assert built(ROOT / "client", tmp_path) == {
        name.removeprefix("client/") for name in tracked("client/dalston_client")
    }


@pytest.mark.slow
def test_the_wheel_of_an_sdist_is_the_same(tmp_path: Path) -> None:
    """As `python -m build` without options makes it."""
    argv = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(argv, capture_output=True, check=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    (tmp_path / "direct").mkdir()
    assert names == built(ROOT, tmp_path / "direct")

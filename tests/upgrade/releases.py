"""The releases of this project, and the code of the last one, which the tests of an upgrade run beside this one.

The code lies beside this file as an archive: a shallow checkout has no history. Where there is one, a test compares
both. To release, after the last commit: `python -m tests.upgrade.releases 0.2.0 COMMIT`, and a line in RELEASES.
"""

import lzma
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT

FOLDER = Path(__file__).parent / "released"
PROGRAMS = ("manage.py", "dalston_queue", "dalston_site", "engines", "static", "supervisor", "templates")


@dataclass(frozen=True)
class Release:
    version: str
    commit: str
    last_migration: str

    @property
    def archive(self) -> Path:
        return FOLDER / f"{self.version}.tar.xz"


RELEASES = (Release("0.1.0", "bffae64e7ea514a65f8270664b0c8ee75da58421", "0001_initial"),)
"""Oldest first."""

PREVIOUS = RELEASES[-1]


def unpack(release: Release, folder: Path) -> Path:
    """Its programs in a folder."""
    folder.mkdir(parents=True)
    with tarfile.open(release.archive) as archive:
        archive.extractall(folder, filter="data")
    return folder


def from_history(commit: str) -> bytes | None:
    """The same as a tar archive made from the history; None if the commit is not there."""
    git = ["git", "-C", str(ROOT), "-c", "tar.umask=0022"]
    if subprocess.run([*git, "cat-file", "-e", commit], capture_output=True, check=False).returncode:
        return None
    done = subprocess.run([*git, "archive", "--format=tar", commit, *PROGRAMS], capture_output=True, check=True)
    return done.stdout


def main(version: str, commit: str) -> None:
    found = from_history(commit)
    if found is None:
        sys.exit(f"there is no commit {commit} here")
    FOLDER.mkdir(exist_ok=True)
    target = FOLDER / f"{version}.tar.xz"
    target.write_bytes(lzma.compress(found, preset=9 | lzma.PRESET_EXTREME))
    print(f"wrote {target} ({target.stat().st_size} bytes)")


if __name__ == "__main__":
    main(*sys.argv[1:])

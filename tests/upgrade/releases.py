"""The releases of this project: the commit of each, and the last migration it knows.

The code of a release comes from this repository's history. A stored wheel would be the same bytes again, in a binary
that no review reads. A shallow checkout has no history: `git fetch --unshallow` brings it.
"""

import io
import os
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ROOT


@dataclass(frozen=True)
class Release:
    version: str
    commit: str
    last_migration: str


RELEASES = (Release("0.1.0", "bffae64e7ea514a65f8270664b0c8ee75da58421", "0001_initial"),)
"""Oldest first. A release adds its line here, after its last commit: the tests of the next one start from it."""

PREVIOUS = RELEASES[-1]


def unpack(release: Release, folder: Path) -> Path:
    """Its source in a folder. Without the history the test is skipped, or fails in CI."""
    git = ["git", "-C", str(ROOT), "archive", "--format=tar", release.commit]
    try:
        done = subprocess.run(git, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        absent = f"the code of {release.version} is not here ({error}): git fetch --unshallow brings it"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(absent)
    folder.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder

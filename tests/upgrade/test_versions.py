"""The version of the project is the same everywhere, and newer than the last release."""

import io
import re
import tarfile
import tomllib

import pytest
from packaging.version import Version

from tests.conftest import ROOT
from tests.upgrade.releases import PREVIOUS, RELEASES, from_history

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_client_and_changelog_have_the_version_of_the_project() -> None:
    assert tomllib.loads((ROOT / "client" / "pyproject.toml").read_text())["project"]["version"] == VERSION
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings == [VERSION, *(release.version for release in reversed(RELEASES))]


def test_the_version_is_the_next_one_after_the_last_release() -> None:
    last, this = Version(PREVIOUS.version), Version(VERSION)
    assert this in {
        Version(f"{last.major}.{last.minor}.{last.micro + 1}"),
        Version(f"{last.major}.{last.minor + 1}.0"),
    } | {Version(f"{last.major + 1}.0.0")}
    assert [Version(it.version) for it in RELEASES] == sorted(Version(it.version) for it in RELEASES)


def test_the_stored_code_of_the_release_is_that_of_its_commit() -> None:
    made = from_history(PREVIOUS.commit)
    if made is None:
        pytest.skip(f"the history here has no {PREVIOUS.commit}")
    with tarfile.open(fileobj=io.BytesIO(made)) as expected, tarfile.open(PREVIOUS.archive) as stored:
        assert files_of(stored) == files_of(expected)


def files_of(archive: tarfile.TarFile) -> dict[str, bytes]:
    return {member.name: content.read() for member in archive if (content := archive.extractfile(member))}

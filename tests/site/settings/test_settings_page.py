"""docs/settings.md lists every setting as it is in the code, and every setting is used."""

import re

import pytest

from dalston_site.checks import RELATIONS
from dalston_site.declared import DECLARED, Declaration
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "settings.md").read_text()
SOURCE = (ROOT / "dalston_site" / "settings.py").read_text()


@pytest.mark.parametrize("declaration", DECLARED.values(), ids=lambda declaration: declaration.name)
def test_each_declared_setting_has_its_row(declaration: Declaration) -> None:
    assert declaration.row in PAGE.splitlines(), f"docs/settings.md lacks this row:\n{declaration.row}"


def test_each_variable_that_is_read_is_on_the_page() -> None:
    read = set(re.findall(r'env\.\w+\(\s*"(\w+)"', SOURCE))
    assert {"DATABASE_URL", "REDIS_URL", "DALSTON_DEV"} <= read
    assert [name for name in sorted(read) if f"| `{name}` |" not in PAGE] == []


def test_the_page_lists_nothing_that_is_not_read() -> None:
    listed = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    assert [name for name in sorted(listed) if f'"{name}"' not in SOURCE] == []


def test_each_relation_is_on_the_page() -> None:
    for small, large, factor, check_id, why in RELATIONS:
        times = f"{factor} x " if factor != 1 else ""
        assert f"| `{large}` at least {times}`{small}` | {why} | dalston.{check_id} |" in PAGE.splitlines()


def test_no_setting_is_unread() -> None:
    """A setting without an effect would be a false promise."""
    packages = [ROOT / "dalston_queue", ROOT / "engines", ROOT / "supervisor", ROOT / "dalston_site"]
    ours = [
        path for package in packages for path in package.rglob("*.py") if path.name not in {"settings.py", "checks.py"}
    ]
    code = "\n".join(path.read_text() for path in ours)
    unread = [name for name in DECLARED if name not in code and SOURCE.count(name) <= 2]
    assert unread == []

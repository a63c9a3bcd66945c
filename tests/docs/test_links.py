"""Links between our own pages lead to files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES as MANUAL
from tests.docs.blocks import ROOT

PAGES = [*MANUAL, *sorted((ROOT / "docs" / "adr").glob("*.md"))]

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_readme_leads_to_every_page_of_the_manual() -> None:
    readme = ROOT / "README.md"
    linked = {(ROOT / link).resolve() for link in LINK.findall(readme.read_text()) if "://" not in link}
    assert [page.name for page in MANUAL if "docs" in page.parts and page not in linked] == []


def test_each_page_of_the_dashboard_is_in_its_manual() -> None:
    """By the first part of its URL. The login, the logout and the icon are no pages of their own."""
    text = (ROOT / "dalston_queue" / "dashboard" / "urls.py").read_text()
    found = set(re.findall(r"path\(\s*r?f?\"\^?([a-z-]+)/", text)) - {"login", "logout", "ws"}
    manual = (ROOT / "docs" / "dashboard.md").read_text()
    assert len(found) > 10
    assert sorted(each for each in found if f"`/{each}/" not in manual) == []

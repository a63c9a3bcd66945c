"""The audit page: an action appears as it happens, and the URL keeps its filter."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from dalston_queue.audit.record import audited
from tests.browser.conftest import Axe, OpenPage
from tests.browser.pages import fits, live, mark, still_same

pytestmark = pytest.mark.django_db(transaction=True)


def record(target: str, reason: str) -> None:
    with audited("node.drain", target, actor="user ada", reason=reason, before={"state": "active"}) as row:
        row.after = {"state": "draining"}


def test_an_action_appears_on_the_open_page_and_is_found_by_a_filter(page: Page, axe: Axe) -> None:
    record("gpu-01", "a new kernel")
    page.goto("/audit/")
    live(page)
    mark(page)
    page.locator("summary").first.click()
    record("gpu-02", "a fan is loud")
    expect(page.locator("#actions tr[id]")).to_have_count(2)
    expect(page.locator("#actions tr[id]").first).to_contain_text("a fan is loud")
    expect(page.locator("details[open]")).to_have_count(1)
    assert still_same(page)
    axe(page)
    page.get_by_label("Target").fill("gpu-01")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#actions tr[id]")).to_have_count(1)
    assert "target=gpu-01" in page.url


def test_an_export_is_a_file(page: Page) -> None:
    record("gpu-01", "=1+1")
    page.goto("/audit/")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert download.value.suggested_filename.endswith(".csv")
    assert "'=1+1" in download.value.path().read_text()


def test_it_fits_a_telephone(open_page: OpenPage) -> None:
    record("gpu-01", "a reason without end " * 20)
    page = open_page(width=380, height=800)
    page.goto("/audit/")
    expect(page.locator("#actions tr[id]")).to_be_visible()
    assert fits(page)

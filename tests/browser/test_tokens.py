"""The page of tokens in a browser: made, copied once, revoked after a question; on a telephone, dark."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from dalston_queue.models import ApiToken, Project
from tests.browser.conftest import Axe, OpenPage
from tests.browser.pages import fits

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_token_is_made_copied_and_revoked(open_page: OpenPage, axe: Axe) -> None:
    Project.objects.create(name="demo")
    page = open_page("operator", width=380, height=800, dark=True)
    page.goto("/tokens/")
    expect(page.locator("main")).to_contain_text("No token of yours yet")
    axe(page)
    assert fits(page)
    page.get_by_text("New token").click()
    axe(page)
    assert fits(page)
    page.locator("#new-name").fill("nightly import " + "x" * 100)
    page.locator("#new-project").fill("demo")
    page.get_by_role("button", name="Make token").click()
    expect(page.locator("#issued-text")).to_have_value(re.compile(r"dal_[\w-]{43}"))
    axe(page)
    assert fits(page)
    page.get_by_role("link", name="I have copied it").click()
    expect(page.locator("tbody .chip")).to_have_text("valid")
    assert page.locator("#issued-text").count() == 0
    page.get_by_role("link", name="Revoke nightly import").click()
    expect(page.get_by_role("button", name="Revoke")).to_be_focused()
    axe(page)
    assert fits(page)
    page.keyboard.press("Enter")
    expect(page.locator(".notice")).to_contain_text("It is refused from now on")
    expect(page.locator("tbody .chip")).to_have_text("revoked")
    assert ApiToken.objects.get().revoked_at is not None

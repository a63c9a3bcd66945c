"""Sign-in by a provider in a browser: from a page to the provider and back to that page, out, and when it fails."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, expect

from tests.browser.conftest import Axe
from tests.browser.pages import fits
from tests.oidc import Provider, provider_process
from tests.tools.oidc_provider import ADA
from tests.web import Web, environment

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    with provider_process(tmp_path_factory.mktemp("provider") / "log") as started:
        yield started


@pytest.fixture
def site(
    chromium: Browser, provider: Provider, transactional_db: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Web]:
    web = Web({**environment(), **provider.env}, tmp_path_factory.mktemp("web") / "log")
    yield web
    web.process.stop()
    web.process.reap()


def is_ours(message: ConsoleMessage, site: Web) -> bool:
    """An error, and not of the provider's pages."""
    return message.type == "error" and message.location.get("url", site.url).startswith(site.url)


def test_a_person_signs_in_by_the_provider_and_out_again(
    site: Web, provider: Provider, chromium: Browser, axe: Axe
) -> None:
    context = chromium.new_context(base_url=site.url, viewport={"width": 380, "height": 800}, color_scheme="dark")
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if is_ours(message, site) else None)
    page.goto("/jobs/?q=nothing")
    expect(page.get_by_label("Password")).to_be_visible()
    axe(page)
    assert fits(page)
    page.get_by_role("link", name="Example & Co").click()
    page.get_by_role("link", name="Continue as ada").click()
    expect(page).to_have_url(f"{site.url}/jobs/?q=nothing")
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(page.locator(".who .name")).to_contain_text("ada operator")
    cookies = {cookie["name"]: cookie for cookie in context.cookies()}
    assert cookies["sessionid"]["httpOnly"] and cookies["sessionid"]["sameSite"] == "Lax"
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("status")).to_contain_text("may still be signed in at Example & Co")
    axe(page)
    page.get_by_role("link", name="sign out there").click()
    expect(page.locator("body")).to_have_text("Signed out at the provider")
    assert problems == [], "nothing on the way is against the Content-Security-Policy"

    provider.control(claims={**ADA, "groups": ["cooks"]})
    page.goto("/login/")
    page.get_by_role("link", name="Example & Co").click()
    page.get_by_role("link", name="Continue as ada").click()
    expect(page.locator("main")).to_contain_text("none of your groups there has a role here")
    axe(page)
    fresh = chromium.new_context(base_url=site.url).new_page()
    provider.control(fault="token_down")
    fresh.goto("/login/?next=/nodes/")
    fresh.get_by_role("link", name="Example & Co").click()
    fresh.get_by_role("link", name="Continue as ada").click()
    expect(fresh.locator("main")).to_contain_text("Example & Co does not answer")
    fresh.get_by_role("link", name="Go to the sign-in page").click()
    expect(fresh.get_by_label("Password")).to_be_visible()
    fresh.context.close()
    context.close()

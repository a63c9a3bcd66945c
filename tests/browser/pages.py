"""Questions about an open page."""

from __future__ import annotations

from playwright.sync_api import Page

from tests.support import WAIT_TIMEOUT_S, wait_until


def live(page: Page, timeout_s: float = WAIT_TIMEOUT_S) -> None:
    """Until the page's WebSocket has sent a message."""
    page.locator("html[data-link=live]").wait_for(state="attached", timeout=timeout_s * 1000)


def mark(page: Page) -> None:
    """Remember the document: `still_same` is false after a reload."""
    page.evaluate("window.sameDocument = true")


def still_same(page: Page) -> bool:
    return bool(page.evaluate("window.sameDocument === true"))


def fits(page: Page, width: int = 380) -> bool:
    """Nothing sticks out to the right, and no link on top has to be scrolled to."""
    whole = "[...document.querySelectorAll('.bar nav')].every((nav) => nav.scrollWidth <= nav.clientWidth)"
    return int(page.evaluate("document.documentElement.scrollWidth")) <= width and bool(page.evaluate(whole))


def until(page: Page, script: str, timeout_s: float = WAIT_TIMEOUT_S) -> None:
    """Until this expression is true. Playwright's own wait_for_function needs an eval that our policy forbids."""
    wait_until(lambda: bool(page.evaluate(f"() => !!({script})")), timeout_s, f"in the browser: {script}")

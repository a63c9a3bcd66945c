"""Every page with something of everything on it: axe finds nothing serious by day or night, and it fits a telephone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from dalston_queue.redis import get_broker
from tests.browser.conftest import Axe, OpenPage
from tests.browser.pages import fits, live
from tests.browser.world import World, make_world
from tests.web import Web

pytestmark = pytest.mark.django_db(transaction=True)

# The address, and something that must be on it: a page without its data is easily accessible.
PAGES = {
    "/login/": "Sign in",
    "/": "transcribe_ch0",
    "/streams/": "transcribe",
    "/streams/transcribe/": "12 of 30 minutes",
    "/jobs/": "call-4711.wav",
    "/jobs/{job}/": "transcribe_ch0",
    "/dead-letters/": "no audio track",
    "/dead-letters/{letter}/": "no audio track",
    "/nodes/": "crashloop",
    "/nodes/gpu-01/": "CUDA out of memory",
    "/nodes/gpu-02/": "judged dead",
    "/nodes/laptop/": "run alone",
    "/audit/": "new model",
}


@pytest.fixture
def world(live_web: Web) -> World:
    return make_world(get_broker())


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_accessible_by_day_and_night_and_fits_a_telephone(
    world: World, open_page: OpenPage, axe: Axe, path: str
) -> None:
    page = open_page("" if path == "/login/" else "operator")
    page.goto(world.path(path))
    expect(page.locator("main")).to_contain_text(PAGES[path])
    if page.locator("body[ws-connect]").count():
        live(page)
    axe(page)
    page.emulate_media(color_scheme="dark")
    axe(page, "color-contrast")
    page.set_viewport_size({"width": 380, "height": 800})
    assert fits(page)

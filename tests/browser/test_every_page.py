"""Every page with all kinds of data: axe finds nothing serious, light or dark, and it fits a telephone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from dalston_queue.redis import get_broker
from tests.browser.conftest import Axe, OpenPage
from tests.browser.pages import fits, live
from tests.browser.world import World, make_world
from tests.web import Web

pytestmark = pytest.mark.django_db(transaction=True)

# The URL, and a text that must be on the page: a page without its data is easily accessible. In three walks, each in
# one window: a browser and new data for every page would take longer than the pages.
WALKS = {
    "work": {
        "/": "no audio track",
        "/queues/": "transcribe",
        "/queues/transcribe/": "12 of 30 minutes",
        "/jobs/": "call-4711.wav",
        "/jobs/{job}/": "transcribe_ch0",
        "/tasks/{task}/?actions=1": "Requeue",
    },
    "trouble": {
        "/dead-letters/": "no audio track",
        "/dead-letters/{dead_letter}/": "no audio track",
        "/limits/": "project calls",
        "/alerts/": "No engine is ready",
        "/alerts/no-active-workers/": "What to press",
        "/audit/": "new model",
        "/password/": "Changing it signs out your other sessions",
        "/nothing-here": "Page not found",
    },
    "machines": {
        "/nodes/": "crashloop",
        "/nodes/gpu-01/": "CUDA out of memory",
        "/nodes/gpu-02/": "judged dead",
        "/nodes/laptop/": "run without a supervisor",
    },
}


@pytest.fixture
def world(live_web: Web) -> World:
    return make_world(get_broker())


@pytest.mark.parametrize("walk", WALKS)
def test_every_page_is_accessible_light_and_dark_and_fits_a_telephone(
    world: World, page: Page, axe: Axe, walk: str, expected_errors: list[str]
) -> None:
    expected_errors.append("404.*nothing-here")
    for path, words in WALKS[walk].items():
        check(page, axe, world.path(path), words)


def test_the_login_is_accessible_light_and_dark_and_fits_a_telephone(open_page: OpenPage, axe: Axe) -> None:
    check(open_page(""), axe, "/login/", "Sign in")


def check(page: Page, axe: Axe, path: str, words: str) -> None:
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(color_scheme="light")
    page.goto(path)
    expect(page.locator("main")).to_contain_text(words)
    if page.locator("body[ws-connect]").count():
        live(page)
    axe(page)
    page.emulate_media(color_scheme="dark")
    axe(page, "color-contrast")
    page.set_viewport_size({"width": 380, "height": 800})
    assert fits(page), f"{path} is wider than a telephone"

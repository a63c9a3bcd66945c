"""A real, headless Chromium driven by Playwright: Debian's package, never a download."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
HOW_TO_GET_IT = (
    "Chromium is not installed, and the dashboard's browser tests need it. On Debian: apt-get install chromium"
)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]  # root, no GPU and a small /dev/shm: containers


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


def need_chromium() -> str:
    """Its path. A bare machine may lack it, and skips; in CI its absence is a failure."""
    path = find_chromium()
    if path is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(HOW_TO_GET_IT)
    return path


@contextmanager
def running(program: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()

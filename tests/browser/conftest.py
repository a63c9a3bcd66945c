"""Chromium, pages of people with a role, and axe; __init__.py says how to use them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

import pytest
import redis
from django.conf import settings as site
from django.contrib.auth.models import Group, User
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect
from pytest_django import Settings

from tests.support import WAIT_TIMEOUT_S
from tests.tools.chromium import need_chromium, running
from tests.web import Web

OpenPage = Callable[..., Page]
Axe = Callable[..., None]
SEVERE = {"serious", "critical"}
expect.set_options(timeout=1000 * WAIT_TIMEOUT_S)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """One for this folder. Playwright's sync API keeps an event loop running in this thread, so Django would refuse its
    ORM here; these tests never leave the thread inside a query, hence the variable. Neither lives longer than the
    folder: elsewhere a query in an event loop must fail."""
    program = need_chromium()
    with pytest.MonkeyPatch.context() as patch, running(program) as browser:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield browser


@pytest.fixture
def live_web(chromium: Browser, web: Web, transactional_db: None, settings: Settings) -> Iterator[Web]:
    """After `chromium`: the database is emptied while the loop still runs."""
    settings.DALSTON_REDIS_PREFIX = web.prefix
    settings.DALSTON_ARTIFACTS_URL = web.env["DALSTON_ARTIFACTS_URL"]
    yield web
    with redis.Redis.from_url(site.REDIS_URL) as client:
        left = list(client.scan_iter(f"{web.prefix}:*", count=1000))
        if left:
            client.delete(*left)


@pytest.fixture
def expected_errors() -> list[str]:
    """Patterns of console errors that this test provokes."""
    return []


@pytest.fixture
def open_page(live_web: Web, chromium: Browser, expected_errors: list[str]) -> Iterator[OpenPage]:
    """open_page("viewer", width=380, dark=True): logged in with that role ("": not logged in), with its own cookies."""
    contexts: list[BrowserContext] = []
    errors: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error":
            errors.append(f"{message.text} ({message.location.get('url', '')})")

    def start(role: str = "operator", *, width: int = 1280, height: int = 900, dark: bool = False) -> Page:
        scheme: Any = "dark" if dark else "light"
        size: Any = {"width": width, "height": height}
        context = chromium.new_context(base_url=live_web.url, viewport=size, color_scheme=scheme)
        contexts.append(context)
        if role:
            context.add_cookies([{"name": "sessionid", "value": _session(role), "url": live_web.url}])
        context.on("console", note)
        context.on("weberror", lambda error: errors.append(str(error.error)))
        return context.new_page()

    yield start
    for context in contexts:
        context.close()
    unexpected = [error for error in errors if not any(re.search(each, error) for each in expected_errors)]
    assert unexpected == []


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    return open_page("operator")


@pytest.fixture
def viewer_page(open_page: OpenPage) -> Page:
    return open_page("viewer")


@pytest.fixture
def admin_page(open_page: OpenPage) -> Page:
    return open_page("admin")


@pytest.fixture(scope="session")
def axe() -> Axe:
    """axe(page) fails with each serious violation: which, what it asks for, where. axe(page, *rules): only these."""
    source = (files("axe_playwright_python") / "axe.min.js").read_text()

    def check(page: Page, *rules: str) -> None:
        if not page.evaluate("() => 'axe' in window"):
            page.evaluate(source)
        # Without the preload it does not fetch our style sheet once more.
        options = {"resultTypes": ["violations"], "preload": False, **({"runOnly": list(rules)} if rules else {})}
        script = "(options) => axe.run(options).then((all) => all.violations)"
        found: list[dict[str, Any]] = page.evaluate(script, options)
        severe = [
            f"{each['id']}: {each['help']}: {node['html'][:200]}"
            for each in found
            if each["impact"] in SEVERE
            for node in each["nodes"][:5]
        ]
        assert severe == [], f"{page.url}\n" + "\n".join(severe)

    return check


def _session(role: str) -> str:
    """The session of a person with this role, without the login form: hashing a password takes too long."""
    user, created = User.objects.get_or_create(username=role, is_superuser=role == "admin", is_staff=role == "admin")
    if created:
        # Emptying the database between two tests takes the groups along that the migration made.
        user.groups.add(Group.objects.get_or_create(name=role)[0])
    client = Client()
    client.force_login(user)
    return client.cookies["sessionid"].value

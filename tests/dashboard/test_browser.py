"""The overview in a real Chromium: live without a reload, honest when the connection is lost, back by itself.

Slow, and needs Chromium (Debian: apt-get install chromium); its absence is a failure, not a skip.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from dalston_queue.jobs.spec import single_task
from dalston_queue.jobs.submit import submit
from dalston_queue.models import Project, Task
from tests.tools.browser import Browser
from tests.web import Web

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "chromium") as browser:
        browser.look()
        yield browser


@pytest.fixture
def session(web: Web, browser: Browser) -> Iterator[httpx.Client]:
    """Somebody who looks at the overview; `window.sameDocument` is gone after a reload."""
    User.objects.create_user("ada", password="a long pass phrase")
    with web.log_in("ada", "a long pass phrase") as client:
        browser.cookie(web.url, "sessionid", client.cookies["sessionid"])
        browser.open(f"{web.url}/")
        browser.wait_for("document.documentElement.dataset.link === 'live'")
        browser.evaluate("window.sameDocument = true")
        yield client


def new_task() -> str:
    project, _ = Project.objects.get_or_create(name="alpha")
    return str(submit(single_task("echo"), project=project).task_ids[0])


def test_a_task_appears_and_ends_without_a_reload(web: Web, browser: Browser, session: httpx.Client) -> None:
    assert browser.evaluate("getComputedStyle(document.querySelector('.try-panel')).display") == "block"
    task_id = new_task()
    browser.wait_for(f"document.getElementById('task-{task_id}')", 3)
    assert browser.evaluate("getComputedStyle(document.querySelector('.try-panel')).display") == "none"
    now = timezone.now()
    Task.objects.filter(pk=task_id).update(status="completed", started_at=now, finished_at=now)
    browser.wait_for(f"document.querySelector('#task-{task_id} .chip.ok')", 3)
    assert browser.evaluate("window.sameDocument")
    assert browser.errors == []


def test_a_lost_connection_is_seen_within_five_seconds_and_mends_itself(
    web: Web, browser: Browser, session: httpx.Client
) -> None:
    web.process.stop()
    browser.wait_for("document.documentElement.dataset.link === 'lost'", 5)
    browser.wait_for("document.getElementById('pulse').textContent.includes('No news for')", 1)
    browser.wait_for("Number(getComputedStyle(document.querySelector('.live')).opacity) < 0.5", 2)
    task_id = new_task()
    web.start()
    browser.wait_for("document.documentElement.dataset.link === 'live'", 15)
    browser.wait_for(f"document.getElementById('task-{task_id}')", 3)
    assert browser.evaluate("window.sameDocument")


def test_the_page_fits_a_telephone(web: Web, browser: Browser, session: httpx.Client) -> None:
    new_task()
    browser.look(width=380, height=800)
    browser.wait_for("document.querySelector('#tasks tr[id]')", 3)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 380


def test_the_keyboard_focus_survives_an_update(web: Web, browser: Browser, session: httpx.Client) -> None:
    new_task()
    browser.wait_for("document.querySelector('#tasks tr[id]')", 3)
    browser.evaluate("document.querySelector('.bar nav a').focus()")
    task_id = new_task()
    browser.wait_for(f"document.getElementById('task-{task_id}')", 3)
    assert browser.evaluate("document.activeElement.textContent") == "Overview"


@pytest.mark.parametrize("path", ["/api/v1/docs", "/admin/", "/login/"])
def test_other_pages_break_no_rule_of_the_policy(web: Web, browser: Browser, path: str) -> None:
    User.objects.create_superuser("root", password="a long pass phrase")
    with web.log_in("root", "a long pass phrase") as client:
        browser.cookie(web.url, "sessionid", client.cookies["sessionid"])
        browser.open(web.url + path)
        browser.wait_for("document.body.children.length > 0")
        assert browser.errors == []

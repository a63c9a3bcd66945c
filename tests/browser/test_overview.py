"""The overview: live without a reload, greyed when the connection is lost, reconnected by itself."""

from __future__ import annotations

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from dalston_queue.jobs.submit.spec import single_task
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import Project, Task
from tests.browser.conftest import OpenPage
from tests.browser.pages import fits, live, mark, still_same, until
from tests.web import Web

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def overview(page: Page) -> Page:
    page.goto("/")
    live(page)
    mark(page)
    return page


def new_task() -> str:
    project, _ = Project.objects.get_or_create(name="alpha")
    return str(submit(single_task("echo"), project=project).task_ids[0])


def test_a_task_appears_and_ends_without_a_reload(overview: Page) -> None:
    expect(overview.locator(".try-panel")).to_be_visible()
    task_id = new_task()
    expect(overview.locator(f"#task-{task_id}")).to_be_visible()
    expect(overview.locator(".try-panel")).to_be_hidden()
    now = timezone.now()
    Task.objects.filter(pk=task_id).update(status="completed", started_at=now, finished_at=now)
    expect(overview.locator(f"#task-{task_id} .chip.ok")).to_be_visible()
    assert still_same(overview)


def test_a_lost_connection_is_shown_within_five_seconds_and_reconnects(
    live_web: Web, overview: Page, expected_errors: list[str]
) -> None:
    expected_errors.append(r"WebSocket connection|\[object Event\]")  # logged by Chromium and htmx
    live_web.process.stop()
    overview.locator("html[data-link=lost]").wait_for(state="attached", timeout=5000)
    expect(overview.locator("#as-of")).to_contain_text("No update for")
    until(overview, "Number(getComputedStyle(document.querySelector('.live')).opacity) < 0.5")
    task_id = new_task()
    live_web.start()
    live(overview)
    expect(overview.locator(f"#task-{task_id}")).to_be_visible()
    assert still_same(overview)


def test_the_keyboard_focus_survives_an_update(overview: Page) -> None:
    task_id = new_task()
    overview.locator(f"#link-{task_id}").focus()
    later = new_task()
    expect(overview.locator(f"#task-{later}")).to_be_visible()
    expect(overview.locator(f"#link-{task_id}")).to_be_focused()


def test_it_fits_a_telephone(open_page: OpenPage) -> None:
    task_id = new_task()
    page = open_page(width=380, height=800)
    page.goto("/")
    expect(page.locator(f"#task-{task_id}")).to_be_visible()
    assert fits(page)


@pytest.mark.parametrize("path", ["/api/v1/docs", "/admin/", "/login/"])
def test_other_pages_break_no_rule_of_the_policy(open_page: OpenPage, path: str) -> None:
    page = open_page("" if path == "/login/" else "admin")
    page.goto(path)
    expect(page.locator("body > *").first).to_be_attached()

"""The page of limits in a browser: an operator sets, changes and removes a limit, and its row follows the tasks."""

from __future__ import annotations

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from dalston_queue.jobs.order.refill import refill
from dalston_queue.models import Limit, Project
from tests.browser.conftest import Axe, OpenPage
from tests.browser.pages import fits, live, mark, still_same
from tests.jobs import make

pytestmark = pytest.mark.django_db(transaction=True)


def ready(count: int) -> None:
    for _ in range(count):
        make.claim(make.single("echo", concurrency_key="42").job)
    refill(None, timezone.now())


def test_a_limit_is_set_followed_changed_and_removed(page: Page, axe: Axe) -> None:
    make.project()
    page.goto("/limits/")
    live(page)
    expect(page.locator("#limits")).to_contain_text("software with few licences")
    page.get_by_text("New limit").click()
    axe(page)
    page.locator("#new-queue").fill("echo")
    page.locator("#new-project").fill("tests")
    page.locator("#new-key").fill("*")
    page.locator("#new-in-flight").fill("2")
    page.locator("#new-reason").fill("two licences each")
    page.get_by_role("button", name="Set limit").click()
    expect(page.locator(".notice")).to_contain_text("Set: queue echo, project tests, each key")
    live(page)
    mark(page)
    ready(4)
    row = page.locator("#limits tr[id]")
    expect(row).to_contain_text("2 of 2")
    expect(row).to_contain_text("1 key at the limit")
    expect(row.locator("progress")).to_have_attribute("value", "100")
    assert still_same(page)
    row.get_by_role("link", name="Actions for").click()
    expect(page.locator("#actions-title")).to_have_text("Limit of queue echo, project tests, each key")
    axe(page)
    page.locator("#change-in-flight").fill("3")
    page.locator("#change-reason").fill("three licences each")
    page.get_by_role("button", name="Change").click()
    expect(page.locator("#limits tr[id]")).to_contain_text("2 of 3")
    page.get_by_role("link", name="Actions for").click()
    page.get_by_role("button", name="Remove").click()
    assert page.locator("#change-reason:invalid").count() == 1, "a reason is needed"
    page.locator("#change-reason").fill("no licences any more")
    page.get_by_role("button", name="Remove").click()
    expect(page.locator(".notice")).to_contain_text("Removed")
    assert not Limit.objects.exists()


def test_a_weight_is_set_with_the_keyboard_alone(page: Page) -> None:
    make.project()
    page.goto("/limits/")
    live(page)
    page.locator("#project-tests-actions").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#change-reason")).to_be_focused()
    page.keyboard.type("three shares")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Control+a")
    page.keyboard.type("3")
    page.keyboard.press("Enter")
    expect(page.locator(".notice")).to_contain_text("tests has weight 3 now")
    assert Project.objects.get(name="tests").weight == 3


def test_a_form_that_is_refused_is_open_with_its_fields(page: Page, expected_errors: list[str]) -> None:
    expected_errors.append("400")
    page.goto("/limits/")
    page.get_by_text("New limit").click()
    page.locator("#new-queue").fill("echo")
    page.locator("#new-reason").fill("two licences each")
    page.get_by_role("button", name="Set limit").click()
    expect(page.get_by_role("alert")).to_contain_text("In flight: a limit needs max_in_flight")
    expect(page.locator("#new-queue")).to_have_value("echo")


def test_it_fits_a_telephone_with_forms_open(open_page: OpenPage) -> None:
    limit = Limit.objects.create(
        queue="a-queue-with-a-long-name-of-forty-letters", project=make.project("p" * 80), max_in_flight=1_000_000
    )
    page = open_page(width=380, height=800, dark=True)
    for path in ("/limits/", f"/limits/?limit={limit.pk}", f"/limits/?project={'p' * 80}"):
        page.goto(path)
        expect(page.locator("#limits tr[id]")).to_be_visible()
        for summary in page.locator("summary").all():
            summary.click()
        assert fits(page), path


def test_a_viewer_has_no_buttons_live_or_not(viewer_page: Page) -> None:
    make.project()
    viewer_page.goto("/limits/")
    live(viewer_page)
    Limit.objects.create(queue="echo", max_in_flight=3)
    expect(viewer_page.locator("#limits tr[id]")).to_contain_text("0 of 3")
    assert viewer_page.get_by_text("Actions…").count() == 0, "nor in what the socket sent"
    assert viewer_page.get_by_text("New limit").count() == 0

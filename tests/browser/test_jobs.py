"""The page of jobs: searched by keyboard, its filters in the URL, its rows live."""

from __future__ import annotations

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from dalston_queue.models import Job
from tests.browser.pages import live, mark, still_same
from tests.jobs import make

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_job_is_searched_by_keyboard_and_followed(page: Page) -> None:
    wanted = make.single("transcribe", parameters={"user": {"id": 42}}).job
    make.single("echo")
    page.goto("/")
    live(page)
    page.keyboard.press("/")
    page.wait_for_url("**/jobs/#search")
    expect(page.locator("input[name=id]")).to_be_focused()
    page.locator("input[name=payload]").fill("user.id:42")
    page.keyboard.press("Enter")
    page.wait_for_url("**payload=user.id*")
    live(page)
    mark(page)
    expect(page.locator("#jobs tr[id]")).to_have_count(1)
    Job.objects.filter(pk=wanted.pk).update(status="failed", error="no audio", finished_at=timezone.now())
    expect(page.locator(f"#job-{wanted.pk} .chip.bad")).to_have_text("failed")
    assert still_same(page)
    page.get_by_role("link", name="Clear").click()
    expect(page.locator("#jobs tr[id]")).to_have_count(2)
    page.locator("input[name=id]").fill(str(wanted.pk))
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/jobs/{wanted.pk}/")

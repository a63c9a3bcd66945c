"""A job's page: its pictures follow the tasks, and a cancel of a running DAG says what it stops."""

from __future__ import annotations

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from dalston_queue.models import Job, Task
from tests.browser.conftest import Axe, OpenPage
from tests.browser.pages import fits, live, mark, still_same
from tests.jobs import make

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def job(live_web: object) -> Job:
    """split runs, left and right wait for it, merge for both."""
    job = make.dag(split="", left="split", right="split", merge="left right")
    make.claim(job)
    [split] = Task.objects.filter(job=job, stage="split")
    make.move("start", [split], engine_id="gpu-01.demo.0.b", seq=1)
    return Job.objects.get(pk=job.pk)


def test_a_running_dag_is_cancelled_and_the_page_follows(page: Page, job: Job, axe: Axe) -> None:
    page.goto(f"/jobs/{job.pk}/")
    live(page)
    expect(page.locator("#dag-split")).to_have_class("box busy")
    expect(page.locator("#stops")).to_contain_text("1 running task on gpu-01.demo.0.b; 3 waiting.")
    axe(page)
    page.get_by_label("Reason").fill("wrong file")
    page.get_by_role("button", name="Cancel job").click()
    # No engine runs it: Redis has no record of it, so it is over at once.
    expect(page.locator("#job .chip").first).to_have_text("cancelled")
    expect(page.locator("#trail")).to_contain_text("wrong file")
    expect(page.locator("#dag-merge title")).to_contain_text("cancelled")
    expect(page.locator("#cancel")).to_be_hidden()
    assert Job.objects.get().status == "cancelled"


def test_a_task_that_ends_changes_its_box_and_its_bar_without_a_reload(page: Page, job: Job, axe: Axe) -> None:
    page.goto(f"/jobs/{job.pk}/")
    live(page)
    mark(page)
    expect(page.locator(".gantt .delivery.busy")).to_have_count(1)
    make.move("complete", Task.objects.filter(job=job, stage="split"), seq=2, result=b'{"words": 7}')
    expect(page.locator("#dag-split")).to_have_class("box ok")
    expect(page.locator(".gantt .delivery.ok")).to_have_count(1)
    assert still_same(page)
    page.locator("#stage-split-link").click()
    expect(page.get_by_text('"words": 7')).to_be_visible()
    expect(page.get_by_text("The node gpu-01 is down")).to_be_visible()
    axe(page)


def test_a_tasks_result_appears_on_its_page_without_a_reload(page: Page, job: Job) -> None:
    page.goto(f"/tasks/{Task.objects.get(job=job, stage='split').pk}/")
    live(page)
    mark(page)
    expect(page.locator("#contents")).to_contain_text("no result yet")
    make.move("complete", Task.objects.filter(job=job, stage="split"), seq=2, result=b'{"words": 7}')
    expect(page.locator("#task .chip")).to_have_text("completed")
    expect(page.get_by_text('"words": 7')).to_be_visible()
    assert still_same(page)


def test_a_viewer_has_no_button(viewer_page: Page, job: Job) -> None:
    viewer_page.goto(f"/jobs/{job.pk}/")
    live(viewer_page)
    expect(viewer_page.locator("#dag-split")).to_be_visible()
    expect(viewer_page.get_by_role("button", name="Cancel job")).to_have_count(0)


def test_it_fits_a_telephone(open_page: OpenPage, job: Job) -> None:
    now = timezone.now()
    Task.objects.filter(job=job, stage="split").update(result={"text": "x" * 3000}, first_enqueued_at=now)
    page = open_page(width=380, height=800)
    for path in (f"/jobs/{job.pk}/", f"/tasks/{Task.objects.get(job=job, stage='split').pk}/"):
        page.goto(path)
        expect(page.locator("main")).to_be_visible()
        assert fits(page), path

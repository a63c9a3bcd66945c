"""Text that clients choose: it turns no text beside it around, and makes no page wider than its window."""

from __future__ import annotations

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from dalston_queue.models import DeadLetter, Job, Task
from tests.browser.conftest import OpenPage
from tests.jobs.make import claim, move, single

pytestmark = pytest.mark.django_db(transaction=True)
TURNED = "\u202eevil txt"
LONG = "x" * 20_000


@pytest.fixture
def task(live_web: object) -> Task:
    """A dead task whose error is one long word with a mark that reverses what follows."""
    task = single("echo", parameters={"note": f"{TURNED} {LONG}"})
    claim(task.job)
    move("enqueue", [task])
    move("dead_letter", [task], message=f"{TURNED}: {LONG}", error_type="Error" + "y" * 150)
    Job.objects.update(error=f"{TURNED}: {LONG}")
    DeadLetter.objects.create(
        task=task, queue="echo", task_type="echo", attempt=1, cause="error", error=f"{TURNED}: {LONG}",
        error_type="E" * 200, traceback=LONG, fingerprint="f" * 16, created_at=timezone.now(),
    )  # fmt: skip
    return task


def _paths(task: Task) -> list[str]:
    letter = DeadLetter.objects.get()
    return [
        "/",
        "/jobs/",
        f"/jobs/{task.job_id}/",
        f"/tasks/{task.id}/",
        "/dead-letters/",
        f"/dead-letters/{letter.id}/",
    ]


@pytest.mark.parametrize("width", [1280, 380])
def test_a_word_without_end_makes_no_page_wider(task: Task, open_page: OpenPage, width: int) -> None:
    page = open_page(width=width, height=800)
    wide: dict[str, int] = {}
    for path in _paths(task):
        page.goto(path)
        expect(page.locator("main")).to_contain_text("evil txt")
        found = int(page.evaluate("document.documentElement.scrollWidth"))
        if found > width:
            wide[path] = found
    assert wide == {}


_NOT_ISOLATED = """() => {
    const walk = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT), found = [];
    while (walk.nextNode()) {
        if (!walk.currentNode.data.includes('\\u202e')) continue;
        const style = getComputedStyle(walk.currentNode.parentElement);
        const closed = style.unicodeBidi.startsWith('isolate') || style.unicodeBidi === 'plaintext';
        const open = !closed && style.display === 'inline' && walk.currentNode.parentElement.tagName !== 'title';
        if (open) found.push(walk.currentNode.parentElement.outerHTML.slice(0, 80));
    }
    return found;
}"""


def test_a_mark_that_reverses_text_ends_with_its_element(task: Task, page: Page) -> None:
    for path in _paths(task):
        page.goto(path)
        expect(page.locator("main")).to_contain_text("evil txt")
        assert page.evaluate(_NOT_ISOLATED) == [], path

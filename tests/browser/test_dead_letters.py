"""Dead letters: replay one and all that match, undo in time, discard; a viewer has no button."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from dalston_queue.jobs.operator.replay_batches import run_due_batches
from dalston_queue.models import DeadLetter, OperatorAction, ReplayBatch, Task
from tests.browser.conftest import Axe, OpenPage
from tests.browser.pages import fits, live, mark, still_same
from tests.dashboard.dead_letters.make import make_dead_letter

pytestmark = pytest.mark.django_db(transaction=True)


def after_undo_window() -> None:
    """What an orchestrator does when the time to undo is over."""
    run_due_batches(timezone.now() + timedelta(hours=2))


def test_a_replay_appears_on_the_page_without_a_reload(page: Page, axe: Axe) -> None:
    dead_letter = make_dead_letter(evidence={"text": "signal 11", "log": ["boom"]}, traceback="File x")
    page.goto("/dead-letters/")
    page.get_by_role("link", name="no audio track").click()
    page.get_by_role("link", name="no audio track").click()
    live(page)
    axe(page)
    page.get_by_role("button", name="Replay", exact=True).click()
    expect(page.get_by_text("1 dead letter will be replayed in 10 s")).to_be_visible()
    batch = ReplayBatch.objects.get()
    expect(page.locator(f"#batch-{batch.pk} time")).to_contain_text("in ")
    live(page)
    mark(page)
    after_undo_window()
    expect(page.locator("#dead-letter .chip.ok")).to_have_text("replayed")
    expect(page.locator("#actions")).to_be_hidden()
    assert still_same(page)
    assert Task.objects.get(dead_letters=dead_letter).attempt == 2


def test_enter_in_the_reason_presses_no_button(page: Page) -> None:
    dead_letter = make_dead_letter()
    page.goto(f"/dead-letters/{dead_letter.pk}/")
    live(page)
    mark(page)
    page.locator("#reason").fill("let it go")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert still_same(page)
    page.get_by_role("button", name="Discard").click()
    expect(page.locator("#dead-letter").get_by_text("discarded", exact=True)).to_be_visible()
    assert not ReplayBatch.objects.exists()


def test_replay_of_all_that_match_with_a_dry_run_and_an_undo(page: Page, axe: Axe) -> None:
    for _ in range(3):
        make_dead_letter()
    make_dead_letter("out of memory", "f2", cause="gpu_oom")
    page.goto("/dead-letters/?cause=error")
    axe(page)
    page.get_by_role("link", name="Replay all that match…").click()
    expect(page.locator("#dry-run")).to_contain_text("3 dead letters match now")
    axe(page)
    page.get_by_label("Reason").fill("the disk is back")
    page.get_by_label("Parameters").fill('{"file": "b.wav"}')
    page.get_by_label("Undo window").fill("600")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("ins").first).to_contain_text("b.wav")
    page.get_by_role("button", name="Replay 3 dead letters").click()
    live(page)
    batch = ReplayBatch.objects.get()
    page.locator(f"#undo-{batch.pk}").click()
    expect(page.get_by_text("Undone before it started")).to_be_visible()
    after_undo_window()
    assert DeadLetter.objects.filter(replayed_at=None).count() == 4
    page.goto("/dead-letters/replay/?cause=error")
    page.get_by_role("button", name="Preview").click()
    page.locator("#replay").click()
    live(page)
    mark(page)
    after_undo_window()
    expect(page.locator(".batch .chip.ok")).to_have_text("done")
    expect(page.locator("#groups tr[id]")).to_have_count(1)
    assert still_same(page)


def test_a_ticked_row_stays_ticked_while_dead_letters_come_in_and_is_discarded_for_a_reason(page: Page) -> None:
    first = make_dead_letter()
    make_dead_letter()
    page.goto("/dead-letters/?fingerprint=f1")
    live(page)
    page.locator(f"#dead-letter-{first.pk}-tick").check()
    later = make_dead_letter()
    expect(page.locator(f"#dead-letter-{later.pk}")).to_be_visible()
    expect(page.locator(f"#dead-letter-{first.pk}-tick")).to_be_checked()
    page.get_by_label("Reason").fill("a test file")
    page.get_by_role("button", name="Discard selected").click()
    expect(page.get_by_text("1 dead letter discarded.")).to_be_visible()
    first.refresh_from_db()
    assert first.discarded_at is not None
    assert OperatorAction.objects.get(action="dead_letter.discard").reason == "a test file"


def test_a_viewer_sees_no_button_and_is_refused(viewer_page: Page, expected_errors: list[str]) -> None:
    expected_errors.append("403")
    dead_letter = make_dead_letter()
    viewer_page.goto("/dead-letters/?each=1")
    live(viewer_page)
    expect(viewer_page.locator(f"#dead-letter-{dead_letter.pk}")).to_be_visible()
    expect(viewer_page.get_by_role("checkbox")).to_have_count(0)
    expect(viewer_page.locator("main").get_by_role("button", name="Replay")).to_have_count(0)
    answer = viewer_page.goto("/dead-letters/replay/")
    assert answer is not None
    assert answer.status == 403


def test_it_fits_a_telephone(open_page: OpenPage) -> None:
    dead_letter = make_dead_letter("an error with a verylongwordthatdoesnotbreakanywherebecauseithasnospaces" * 2)
    page = open_page(width=380, height=800)
    for path in ("", "?each=1", f"{dead_letter.pk}/", "replay/"):
        page.goto(f"/dead-letters/{path}")
        expect(page.locator("main")).to_be_visible()
        assert fits(page), path

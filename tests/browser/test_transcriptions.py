"""Transcriptions: files are dropped and sent, the transcript arrives while the page is open, words seek the player."""

from __future__ import annotations

import io
import math
import struct
import wave
from pathlib import Path

import pytest
from playwright.sync_api import FilePayload, Page, expect

from dalston_queue.models import Job
from dalston_queue.redis import get_broker
from tests.browser.conftest import Axe
from tests.browser.pages import fits, live, mark, still_same, until
from tests.browser.test_every_page import check
from tests.dashboard.transcription import make as made
from tests.web import Web

pytestmark = pytest.mark.django_db(transaction=True)


def tone(seconds: int) -> bytes:
    """A recording that a browser plays."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        samples = (int(8000 * math.sin(index / 5)) for index in range(8000 * seconds))
        sound.writeframes(b"".join(struct.pack("<h", sample) for sample in samples))
    return file.getvalue()


def recording(name: str, content: bytes) -> FilePayload:
    return {"name": name, "mimeType": "audio/wav", "buffer": content}


def send(page: Page, name: str = "two cities.wav", content: bytes | None = None) -> str:
    """Through the page; returns the job's id."""
    page.goto("/transcriptions/")
    live(page)
    page.locator("#files").set_input_files([recording(name, content or tone(8))])
    page.get_by_role("link", name=f"Transcription of {name}").click()
    live(page)
    return page.url.rstrip("/").rpartition("/")[2]


def sent(page: Page, name: str) -> str:
    return page.locator("#uploads li", has_text=name).locator(".outcome").inner_text()


def test_several_files_are_sent_and_arrive_in_the_list(page: Page, axe: Axe, expected_errors: list[str]) -> None:
    expected_errors.append("422")
    page.goto("/transcriptions/")
    live(page)
    mark(page)
    expect(page.locator("#transcriptions")).to_contain_text("No transcription yet")
    page.get_by_text("Options").click()
    page.get_by_label("Language").fill("en")
    page.get_by_label("Model").select_option("moonshine-tiny")
    page.get_by_label("Channels").select_option("separate")
    files = [(f"call {number}.wav", tone(1) + bytes([number])) for number in range(5)] + [("empty.wav", b"")]
    page.locator("#files").set_input_files([recording(name, content) for name, content in files])
    expect(page.locator("#upload-status")).to_have_text("5 of 6 sent, 1 failed.")
    assert "empty.wav is empty" in sent(page, "empty.wav")
    expect(page.locator("#transcriptions tr[id]")).to_have_count(5)
    assert still_same(page)
    asked = [job.parameters for job in Job.objects.all()]
    found = {tuple(each[name] for name in ("language", "model", "channels", "words", "align")) for each in asked}
    assert found == {("en", "moonshine-tiny", "separate", True, True)}
    axe(page)
    page.set_viewport_size({"width": 380, "height": 800})
    assert fits(page)


def test_times_of_words_can_be_left_out(page: Page) -> None:
    page.goto("/transcriptions/")
    live(page)
    page.get_by_text("Options").click()
    page.get_by_label("Times of words").select_option("no")
    page.locator("#files").set_input_files([recording("a.wav", tone(1))])
    expect(page.locator("#uploads").get_by_role("link")).to_be_visible()
    asked = Job.objects.get().parameters
    assert (asked["words"], asked["align"]) == (False, False)


def test_files_are_dropped_anywhere_on_the_page(page: Page, expected_errors: list[str]) -> None:
    expected_errors.append("ERR_FILE_NOT_FOUND|ERR_FAILED")
    page.goto("/transcriptions/")
    live(page)
    drop = """(kind) => {
        const files = new DataTransfer();
        files.items.add(new File(["RIFF dropped"], "dropped \\u202egpj.wav"));
        document.querySelector("h1").dispatchEvent(
            new DragEvent(kind, { dataTransfer: files, bubbles: true, cancelable: true }));
    }"""
    page.evaluate(drop, "dragenter")
    expect(page.locator("#upload.over")).to_be_visible()
    page.evaluate(drop, "drop")
    expect(page.locator("#upload.over")).to_have_count(0)
    expect(page.locator("#uploads bdi")).to_have_text("dropped \u202egpj.wav")
    expect(page.locator("#uploads").get_by_role("link")).to_be_visible()
    assert Job.objects.get().parameters["filename"] == "dropped gpj.wav"


def test_a_broken_connection_is_tried_again_and_transcribed_once(
    page: Page, live_web: Web, expected_errors: list[str]
) -> None:
    expected_errors.append("ERR_CONNECTION|WebSocket|object Event|503|409")
    page.goto("/transcriptions/")
    live(page)
    live_web.process.stop()
    page.locator("#files").set_input_files([recording("a.wav", tone(1))])
    expect(page.get_by_text("The connection broke")).to_be_visible()
    live_web.start()
    page.get_by_role("button", name="Try again a.wav").click()
    expect(page.locator("#uploads").get_by_role("link")).to_be_visible()
    assert Job.objects.count() == 1


def test_an_upload_can_be_cancelled_by_keyboard(page: Page, tmp_path: Path) -> None:
    page.goto("/transcriptions/")
    live(page)
    page.route("**/v1/audio/transcriptions", lambda _: None)  # never answered
    page.locator("#files").set_input_files([recording("a.wav", b"RIFF")])
    page.get_by_role("button", name="Cancel a.wav").press("Enter")
    expect(page.locator("#uploads li")).to_have_count(0)
    expect(page.locator("#files")).to_be_focused()


def test_a_viewer_reads_and_cannot_send(viewer_page: Page, axe: Axe) -> None:
    viewer_page.goto("/transcriptions/")
    live(viewer_page)
    expect(viewer_page.locator("input[type=file]")).to_have_count(0)
    expect(viewer_page.locator("main")).to_contain_text("you need the role operator")
    axe(viewer_page)


def test_the_transcript_comes_while_the_recording_plays_and_its_words_seek(page: Page, axe: Axe) -> None:
    job_id = send(page)
    mark(page)
    expect(page.locator("#transcript")).to_contain_text("The transcript comes here when it is ready.")
    page.evaluate("document.getElementById('player').muted = true")
    page.evaluate("document.getElementById('player').play()")
    until(page, "document.getElementById('player').currentTime > 0.2")
    broker = get_broker()
    made.run(broker, Job.objects.get(pk=job_id).pk, made.answers(made.transcript()))
    expect(page.locator("#transcript .w")).to_have_count(12)
    expect(page.locator("#wave")).to_be_visible()
    expect(page.locator("#transcription .chip.ok")).to_have_text("completed")
    assert still_same(page)
    until(page, "!document.getElementById('player').paused")

    page.get_by_text("<worst>").click()
    until(page, "document.getElementById('player').currentTime >= 4.5")
    expect(page.locator(".segment[aria-current] .at")).to_have_text("0:03")
    until(page, "document.querySelector('.w.now').textContent === 'times.'")  # it goes on by itself
    page.evaluate("document.getElementById('player').pause()")

    page.locator(".at").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".w:focus")).to_have_text("was")
    page.keyboard.press("Enter")
    until(page, "Math.abs(document.getElementById('player').currentTime - 0.5) < 0.5")
    page.evaluate("document.getElementById('player').pause()")

    page.locator("#wave").press("End")
    expect(page.locator("#wave")).to_have_attribute("aria-valuetext", "0:08 of 0:08")
    page.locator("#wave").press("ArrowLeft")
    expect(page.locator("#wave")).to_have_attribute("aria-valuenow", "3")
    box = page.locator("#wave").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * 0.75, box["y"] + 10)
    expect(page.locator("#wave")).to_have_attribute("aria-valuenow", "6")

    with page.expect_download() as download:
        page.locator("#download-srt").click()
    assert download.value.suggested_filename == "two cities.srt"
    assert Path(download.value.path()).read_text().startswith("1\n00:00:00,000 --> 00:00:03,000\nIt was the best")
    axe(page)


def test_a_link_to_a_moment_begins_there(page: Page) -> None:
    job_id = send(page)
    made.run(get_broker(), Job.objects.get(pk=job_id).pk, made.answers(made.transcript()))
    page.goto(f"/transcriptions/{job_id}/#t=4.50")
    until(page, "document.querySelector('.w.now')?.textContent === '<worst>'")
    page.goto("/")
    page.goto(f"/jobs/{job_id}/")
    page.locator("#recording-link").click()
    page.wait_for_url(f"**/transcriptions/{job_id}/")
    live(page)


def test_a_recording_that_cannot_be_played_is_still_read(page: Page, expected_errors: list[str]) -> None:
    expected_errors.append("play|decode|media|416|404")
    job_id = send(page, "strange.wav", b"RIFF but nothing else")
    made.run(get_broker(), Job.objects.get(pk=job_id).pk, made.answers(made.transcript()))
    expect(page.locator("#player-problem")).to_contain_text("cannot play the recording")
    expect(page.locator("#transcript .w")).to_have_count(12)


def test_every_state_is_accessible_light_and_dark_and_fits_a_telephone(
    page: Page, axe: Axe, expected_errors: list[str]
) -> None:
    expected_errors.append("404|audio")  # these were not uploaded
    broker = get_broker()
    name = "a-very-long-name-without-any-space-" * 4 + "evil\u202egpj.wav"
    completed, calls = made.completed(broker, name), made.completed(broker, document=made.transcript(channels=2))
    failed, waiting = made.rejected(broker), made.submitted("later.m4a")
    check(page, axe, "/transcriptions/", "It was the best of times")
    check(page, axe, f"/transcriptions/{completed}/", "Underlined words")
    check(page, axe, f"/transcriptions/{calls}/", "channel 2")
    check(page, axe, f"/transcriptions/{failed}/", "notes.txt has no audio")
    check(page, axe, f"/transcriptions/{waiting}/", "starting")

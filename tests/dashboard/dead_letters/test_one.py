"""The page of one dead letter."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone

from dalston_queue.jobs.lifecycle.dead_letters import dead_letter_unreadable
from dalston_queue.models import DeadLetter
from tests.dashboard.dead_letters.make import PAGE, make_dead_letter, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.keeps_keys, pytest.mark.usefixtures("broker")]


def test_it_shows_all_evidence_escaped(viewer: Client) -> None:
    evidence = {
        "kind": "signal",
        "signal": 11,
        "exit_code": None,
        "text": "signal 11 (SIGSEGV)",
        "log": ["loading", "<b>boom</b>"],
        "stack": ["Fatal Python error: Segmentation fault"],
        "gpu": [{"uuid": "GPU-1", "used_mib": 12000, "utilisation": None, "°C": 61}],
        "extra": {"deep": 1},
    }
    dead_letter = make_dead_letter("<i>died</i>", traceback="File <x>", evidence=evidence, error_type="EngineLost")
    text = text_of(viewer, f"{PAGE}{dead_letter.pk}/")
    for part in (
        "&lt;i&gt;died",
        "File &lt;x&gt;",
        "&lt;b&gt;boom",
        "signal 11 (SIGSEGV)",
        "Fatal Python",
        "12000",
    ):
        assert part in text, part
    assert "not known" in text, "a figure that is not there is not 0"
    assert "&quot;deep&quot;: 1" in text
    assert "&quot;file&quot;: &quot;a.wav&quot;" in text
    assert f'href="/jobs/{dead_letter.task.job_id}/#stage-echo"' in text


def test_unreadable_bytes_are_shown_as_hex_and_cannot_be_replayed(operator: Client) -> None:
    dead_letter_unreadable("echo", "e-1", "no task id", {"junk": b"\x00\xff<script>", "text": b"<b>"}, timezone.now())
    text = text_of(operator, f"{PAGE}{DeadLetter.objects.get().pk}/")
    assert "00000000  00 ff 3c 73" in text
    assert "..&lt;script&gt;" in text
    assert "&lt;b&gt;" in text
    assert "Discard</button>" in text
    assert "Replay</button>" not in text


def test_an_unknown_dead_letter_is_a_404(viewer: Client) -> None:
    assert viewer.get(f"{PAGE}0193e2b0-0000-7000-8000-000000000000/").status_code == 404

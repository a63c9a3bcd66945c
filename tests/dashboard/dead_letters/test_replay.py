"""Replay, undo and discard on the pages of dead letters."""

from __future__ import annotations

from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.test import Client
from django.utils import timezone

from dalston_queue.accounts.roles import Role
from dalston_queue.dashboard.dead_letters.replay import diff
from dalston_queue.jobs.operator.replay_batches import CREATE_LOCK, run_due_batches
from dalston_queue.models import DeadLetter, OperatorAction, ReplayBatch, Task
from tests.dashboard.dead_letters.make import PAGE, make_dead_letter, text_of
from tests.dashboard.people import logged_in
from tests.support import wait_until

pytestmark = [pytest.mark.django_db, pytest.mark.keeps_keys, pytest.mark.usefixtures("broker")]


def _waiting_for_lock(cursor: Any) -> int:
    cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    return int(cursor.fetchone()[0])


def replay(client: Client, *dead_letters: DeadLetter, **form: str) -> str:
    answer = client.post(f"{PAGE}replay-selected/", {"id": [str(one.pk) for one in dead_letters], **form}, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_replay_of_selected_dead_letters_can_be_undone_before_it_starts(operator: Client) -> None:
    dead_letters = [make_dead_letter(), make_dead_letter()]
    text = replay(operator, *dead_letters, reason="fixed")
    assert "2 dead letters will be replayed in 10 s" in text
    batch = ReplayBatch.objects.get()
    assert (batch.actor, batch.reason, batch.matched) == ("user olga", "fixed", 2)
    assert f'id="undo-{batch.pk}"' in text
    undone = operator.post(f"{PAGE}batches/{batch.pk}/undo/", follow=True).content.decode()
    assert "Undone before it started" in undone
    assert not run_due_batches(timezone.now() + timedelta(minutes=1))
    assert set(Task.objects.values_list("status", flat=True)) == {"dead_letter"}


def test_after_the_undo_window_it_is_replayed_and_its_page_says_so(operator: Client) -> None:
    dead_letter = make_dead_letter()
    replay(operator, dead_letter)
    run_due_batches(timezone.now() + timedelta(minutes=1))
    dead_letter.refresh_from_db()
    assert dead_letter.replayed_attempt == 2
    text = text_of(operator, f"{PAGE}{dead_letter.pk}/")
    assert "Replayed as attempt 2" in text
    for page in (text, text_of(operator, f"/jobs/{Task.objects.get().job_id}/")):
        assert "dead_letter.replay_batch" in page, "the action is on its page and on its job's"
    late = operator.post(f"{PAGE}batches/{ReplayBatch.objects.get().pk}/undo/", follow=True).content.decode()
    assert "Nothing was changed: the replay batch is done already." in late


def test_of_two_operators_one_wins_and_the_other_reads_so(operator: Client) -> None:
    dead_letter = make_dead_letter()
    bea = logged_in("bea", Role.OPERATOR)
    replay(operator, dead_letter)
    assert "user olga was faster" in replay(bea, dead_letter)
    batch = ReplayBatch.objects.get()
    bea.post(f"{PAGE}batches/{batch.pk}/undo/")
    late = operator.post(f"{PAGE}batches/{batch.pk}/undo/", follow=True).content.decode()
    assert "user bea was faster, the replay batch is undone" in late


@pytest.mark.django_db(transaction=True)
def test_of_two_operators_in_the_same_moment_one_wins_too(operator: Client) -> None:
    dead_letter, pages, bea = make_dead_letter(), list[str](), logged_in("bea", Role.OPERATOR)

    def press(client: Client) -> None:
        pages.append(replay(client, dead_letter))
        connections.close_all()

    pressing = [Thread(target=press, args=[client]) for client in (operator, bea)]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [CREATE_LOCK])
        for one in pressing:
            one.start()
        wait_until(lambda: _waiting_for_lock(cursor) == 2, what="two requests that see no batch of the other")
    for one in pressing:
        one.join()
    assert ReplayBatch.objects.count() == 1
    [done, late] = sorted(pages, key=lambda text: "faster" in text)
    assert "1 dead letter will be replayed in 10 s" in done
    assert "was faster: 1 dead letter already in a replay batch." in late


def test_a_closed_dead_letter_is_not_replayed(operator: Client) -> None:
    gone, still = make_dead_letter(discarded_at=timezone.now()), make_dead_letter()
    text = replay(operator, gone)
    assert "Nothing was changed: it was replayed or discarded before." in text
    assert not ReplayBatch.objects.exists()
    assert "Nothing matches" in text_of(operator, f"{PAGE}replay/?id={gone.pk}")
    text = replay(operator, gone, still)
    assert "1 dead letter had been replayed or discarded before." in text
    assert "1 dead letter will be replayed in 10 s" in text
    assert "You were faster" in replay(operator, still), "pressed twice"
    assert ReplayBatch.objects.get().dead_letter_ids == [still.pk]


def test_an_id_may_be_written_in_any_form_of_a_uuid(operator: Client) -> None:
    dead_letter = make_dead_letter()
    for written in (f"{{{dead_letter.pk}}}", f"urn:uuid:{dead_letter.pk}", f"+{dead_letter.pk}"):
        text = text_of(operator, f"{PAGE}replay/?id={written}")
        assert f'href="/dead-letters/{dead_letter.pk}/"' in text, "the way back"
        assert "a.wav" in text


def test_all_that_match_with_a_dry_run_a_rate_and_a_priority(operator: Client) -> None:
    for _ in range(3):
        make_dead_letter()
    make_dead_letter("else", "f2")
    path = f"{PAGE}replay/?fingerprint=f1"
    assert "Dry run: 3 dead letters match now." in text_of(operator, path)
    form = {"rate": "60", "priority": "low", "reason": "fixed", "undo_seconds": "30", "parameters": ""}
    checked = operator.post(path, {**form, "check": "1"}).content.decode()
    assert "3 dead letters will be replayed, 60 a minute, with low priority" in checked
    assert not ReplayBatch.objects.exists(), "a preview changes nothing"
    operator.post(path, {**form, "replay": "1"})
    batch = ReplayBatch.objects.get()
    assert (batch.matched, batch.rate_per_minute, batch.priority) == (3, 60, "low")
    assert batch.starts_at - batch.created_at == timedelta(seconds=30)
    assert OperatorAction.objects.filter(action="dead_letter.replay_batch", reason="fixed").exists()
    again = operator.post(path, {**form, "replay": "1"}, follow=True).content.decode()
    assert "You were faster: this replay batch exists already." in again
    assert ReplayBatch.objects.count() == 1


def test_edited_parameters_are_shown_as_a_diff_before_they_count(operator: Client) -> None:
    dead_letter = make_dead_letter()
    path = f"{PAGE}replay/?id={dead_letter.pk}"
    assert "&quot;a.wav&quot;" in text_of(operator, path)
    form = {"parameters": '{"file": "b.wav"}', "undo_seconds": "0"}
    checked = operator.post(path, {**form, "check": "1"}).content.decode()
    assert "<del>-   &quot;file&quot;: &quot;a.wav&quot;</del>" in checked
    assert "<ins>+   &quot;file&quot;: &quot;b.wav&quot;</ins>" in checked
    operator.post(path, {**form, "replay": "1"})
    run_due_batches(timezone.now())
    assert Task.objects.get().parameters == {"file": "b.wav"}


@pytest.mark.parametrize(
    "form",
    [
        {"parameters": "{"},
        {"parameters": "[1]"},
        {"rate": "0"},
        {"rate": "x"},
        {"undo_seconds": "9999"},
        {"priority": "urgent"},
        {"parameters": "[" * 100_000},
        {"parameters": r'{"a": "\ud800"}'},
        {"parameters": r'{"a": "\u0000"}'},
        {"parameters": '{"a": NaN}'},
    ],
)
def test_an_invalid_form_is_refused_with_a_message_and_kept(operator: Client, form: dict[str, str]) -> None:
    make_dead_letter()
    for step in ("check", "replay"):
        answer = operator.post(f"{PAGE}replay/", {**form, "reason": "keep me", step: "1"})
        assert answer.status_code == 400, step
        assert b'role="alert"' in answer.content
        assert b"keep me" in answer.content
    assert not ReplayBatch.objects.exists()


def test_nothing_selected_changes_nothing(operator: Client) -> None:
    assert "no dead letter was selected" in replay(operator)
    for elsewhere in ("https://evil.example/", "abc", "/audit/"):
        answer = operator.post(f"{PAGE}replay-selected/", {"id": "x", "next": elsewhere})
        assert answer["Location"] == PAGE


def test_a_diff_marks_only_what_differs() -> None:
    assert [(line.kind, line.text.strip()) for line in diff({"a": 1, "b": 2}, {"b": 3, "a": 1})] == [
        (" ", "{"),
        (" ", '"a": 1,'),
        ("-", '"b": 2'),
        ("+", '"b": 3'),
        (" ", "}"),
    ]


def test_discard_needs_a_reason_and_counts_once(operator: Client) -> None:
    dead_letters = [make_dead_letter(), make_dead_letter()]
    form = {"id": [str(one.pk) for one in dead_letters]}
    assert b"a reason is needed" in operator.post(f"{PAGE}discard/", form, follow=True).content
    done = operator.post(f"{PAGE}discard/", {**form, "reason": "old"}, follow=True).content.decode()
    assert "2 dead letters discarded." in done
    again = operator.post(f"{PAGE}discard/", {**form, "reason": "old"}, follow=True).content.decode()
    assert "Nothing was changed: it was replayed or discarded before." in again
    row = OperatorAction.objects.filter(action="dead_letter.discard").order_by("id")[0]
    assert (row.actor, row.reason, row.after) == ("user olga", "old", {"discarded": 2})

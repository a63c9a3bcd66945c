"""The pages of dead letters: groups, lists, one letter, and what their buttons do."""

from __future__ import annotations

from datetime import timedelta
from threading import Thread
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection, connections, transaction
from django.test import Client
from django.utils import timezone

from dalston_queue.accounts.roles import Role, give_role
from dalston_queue.dashboard.dead_letters import query as dead_letters_query
from dalston_queue.dashboard.dead_letters.query import COUNT_LIMIT, SHOWN, dead_letters_of, groups_of
from dalston_queue.dashboard.dead_letters.replay import diff
from dalston_queue.dashboard.parts.black_box import black_box, hex_dump, raw_fields
from dalston_queue.jobs.lifecycle.dead_letters import dead_letter_unreadable
from dalston_queue.jobs.operator.replay import Filter
from dalston_queue.jobs.operator.replay_batches import CREATE_LOCK, run_due_batches
from dalston_queue.models import DeadLetter, Job, OperatorAction, ReplayBatch, Task
from tests.jobs import make
from tests.support import wait_until

pytestmark = [pytest.mark.django_db, pytest.mark.keeps_keys, pytest.mark.usefixtures("broker")]

PAGE = "/dead-letters/"


@pytest.fixture
def operator(client: Client) -> Client:
    client.force_login(person("ada", Role.OPERATOR))
    return client


@pytest.fixture
def viewer() -> Client:
    client = Client()
    client.force_login(person("vera", Role.VIEWER))
    return client


def person(name: str, role: Role) -> User:
    user = User.objects.create_user(name)
    give_role(user, role)
    return user


def dead_letter(error: str = "no audio track", fingerprint: str = "f1", queue: str = "echo", **more: Any) -> DeadLetter:
    """A task that died, as the orchestrator leaves it behind."""
    task, now = make.single(queue, parameters={"file": "a.wav"}), timezone.now()
    Job.objects.filter(pk=task.job_id).update(status="failed", finished_at=now)
    Task.objects.filter(pk=task.pk).update(status="dead_letter", finished_at=now)
    fields = {"cause": "error", "created_at": now, "task_type": queue, "attempt": 1} | more
    return DeadLetter.objects.create(task=task, queue=queue, error=error, fingerprint=fingerprint, **fields)


def _that_wait(cursor: Any) -> int:
    cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    return int(cursor.fetchone()[0])


def text_of(client: Client, path: str = PAGE) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


class TestGroups:
    def test_letters_that_look_alike_are_one_line_with_count_first_and_last(self, viewer: Client) -> None:
        now = timezone.now()
        for age in (3, 2, 1):
            dead_letter(created_at=now - timedelta(hours=age))
        dead_letter("out of <memory>", "f2", cause="gpu_oom")
        first, second = groups_of(Filter())
        assert (first.fingerprint, first.count) == ("f2", 1)
        assert (second.count, second.first_at, second.last_at) == (
            3,
            now - timedelta(hours=3),
            now - timedelta(hours=1),
        )
        text = text_of(viewer)
        assert "out of &lt;memory&gt;" in text
        assert 'href="?fingerprint=f1"' in text

    def test_closed_letters_are_not_there(self) -> None:
        dead_letter(replayed_at=timezone.now())
        dead_letter(discarded_at=timezone.now())
        assert groups_of(Filter()) == ()
        assert dead_letters_of(Filter()) == ((), None)

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("?queue=echo", {"f1"}),
            ("?cause=timeout", {"f2"}),
            ("?task_type=sleep", {"f2"}),
            ("?error=AUDIO", {"f1"}),
            ("?error=100%25", set()),
            ("?since=2020-01-01", {"f1", "f2"}),
            ("?until=2020-01-01", set()),
            ("?queue=echo&cause=timeout", set()),
        ],
    )
    def test_the_address_filters(self, viewer: Client, query: str, found: set[str]) -> None:
        dead_letter()
        dead_letter("too slow", "f2", queue="sleep", cause="timeout")
        text = text_of(viewer, PAGE + query)
        assert {name for name in ("f1", "f2") if f'id="group-{name}"' in text} == found

    def test_a_count_stops_and_says_so(self, viewer: Client) -> None:
        rows = [
            DeadLetter(queue="echo", cause="rejected", fingerprint="raw", created_at=timezone.now())
            for _ in range(COUNT_LIMIT + 5)
        ]
        DeadLetter.objects.bulk_create(rows)
        [group] = groups_of(Filter())
        assert group.is_more
        assert f"more than {COUNT_LIMIT}" in text_of(viewer)

    def test_no_query_reads_the_whole_table(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                """INSERT INTO dalston_dead_letter (id, queue, task_type, attempt, deliveries, cause, error, error_type,
                       traceback, fingerprint, created_at, replayed_at)
                   SELECT gen_random_uuid(), 'echo', '', 1, 0, 'error', 'boom', '', '',
                       CASE WHEN n < 20 THEN 'rare' ELSE 'f' || n % 7 END,
                       now() - n * interval '1 s',
                       CASE WHEN n % 2 = 0 THEN now() END
                   FROM generate_series(1, 30000) AS n"""
            )
            cursor.execute("ANALYZE dalston_dead_letter")
        values = dict.fromkeys(
            ["queue", "cause", "fingerprint", "task_type", "error", "since", "until", "after_at", "after_id"]
        )
        for query, index, more in (
            (dead_letters_query._WALK, "dead_letter_group", {}),
            (dead_letters_query._LIST, "dead_letter_newest", {}),
            (dead_letters_query._LIST, "dead_letter_group", {"fingerprint": "rare"}),
            (dead_letters_query._SEARCH_GROUPS, "dead_letter_newest", {"error": "boom"}),
        ):
            with connection.cursor() as cursor:
                cursor.execute("EXPLAIN " + query, {**values, **more})
                plan = "\n".join(row[0] for row in cursor.fetchall())
            assert index in plan, plan
            assert "Seq Scan" not in plan, plan


class TestList:
    def test_a_group_opens_into_its_letters(self, viewer: Client) -> None:
        mine, other = dead_letter(), dead_letter("else", "f2")
        text = text_of(viewer, f"{PAGE}?fingerprint=f1")
        assert f'href="/dead-letters/{mine.pk}/"' in text
        assert str(other.pk) not in text
        assert str(other.pk) in text_of(viewer, f"{PAGE}?each=1")

    def test_pages_follow_each_other_without_a_gap(self, viewer: Client) -> None:
        now = timezone.now()
        rows = [
            DeadLetter(queue="echo", cause="rejected", fingerprint="raw", created_at=now - timedelta(seconds=n // 2))
            for n in range(SHOWN * 2 + 3)
        ]
        DeadLetter.objects.bulk_create(rows)
        seen: list[UUID] = []
        place = None
        while True:
            letters, place = dead_letters_of(Filter(fingerprint="raw"), place)
            seen += [letter.id for letter in letters]
            if place is None:
                break
        assert len(seen) == len(set(seen)) == len(rows)
        assert 'rel="next"' in text_of(viewer, f"{PAGE}?each=1")

    @pytest.mark.parametrize(
        "query",
        [
            "?since=x",
            "?each=1&after=x",
            "?each=1&after=0001-01-01T00:00%2B14:00,0193e2b0-0000-7000-8000-000000000000",
            "?queue=%00",
        ],
    )
    def test_an_address_that_makes_no_sense_says_why(self, viewer: Client, query: str) -> None:
        answer = viewer.get(PAGE + query)
        assert answer.status_code == 400
        assert b'role="alert"' in answer.content


class TestOneLetter:
    def test_it_shows_everything_there_is_and_escapes_it(self, viewer: Client) -> None:
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
        letter = dead_letter("<i>died</i>", traceback="File <x>", evidence=evidence, error_type="EngineLost")
        text = text_of(viewer, f"{PAGE}{letter.pk}/")
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
        assert f'href="/jobs/{letter.task.job_id}/#stage-echo"' in text

    def test_unreadable_bytes_are_shown_as_hex_and_cannot_be_replayed(self, operator: Client) -> None:
        dead_letter_unreadable(
            "echo", "e-1", "no task id", {"junk": b"\x00\xff<script>", "text": b"<b>"}, timezone.now()
        )
        text = text_of(operator, f"{PAGE}{DeadLetter.objects.get().pk}/")
        assert "00000000  00 ff 3c 73" in text
        assert "..&lt;script&gt;" in text
        assert "&lt;b&gt;" in text
        assert "Discard</button>" in text
        assert "Replay</button>" not in text

    def test_an_unknown_letter_is_a_404(self, viewer: Client) -> None:
        assert viewer.get(f"{PAGE}0193e2b0-0000-7000-8000-000000000000/").status_code == 404

    def test_any_shape_of_evidence_is_shown(self) -> None:
        for odd in ("text", ["a"], 5, {"log": {"x": 1}, "gpu": "none", "stack": 3, "text": None}):
            assert black_box(odd) is not None
        assert black_box(None) is None
        assert raw_fields({"x": {"base64": "%%%"}})[0].text == '{\n  "base64": "%%%"\n}'
        assert hex_dump(b"a" * 5000).endswith("… 5000 bytes in all")


class TestReplay:
    def replay(self, client: Client, *letters: DeadLetter, **form: str) -> str:
        answer = client.post(
            f"{PAGE}replay-selected/", {"id": [str(letter.pk) for letter in letters], **form}, follow=True
        )
        assert answer.status_code == 200
        return answer.content.decode()

    def test_selected_letters_are_ordered_and_can_be_undone_before_anything_happens(self, operator: Client) -> None:
        letters = [dead_letter(), dead_letter()]
        text = self.replay(operator, *letters, reason="fixed")
        assert "2 dead letters will be replayed in 10 s" in text
        order = ReplayBatch.objects.get()
        assert (order.actor, order.reason, order.matched) == ("user ada", "fixed", 2)
        assert f'id="undo-{order.pk}"' in text
        undone = operator.post(f"{PAGE}batches/{order.pk}/undo/", follow=True).content.decode()
        assert "Undone before it started" in undone
        assert not run_due_batches(timezone.now() + timedelta(minutes=1))
        assert set(Task.objects.values_list("status", flat=True)) == {"dead_letter"}

    def test_after_the_window_it_happens_and_the_letter_says_so(self, operator: Client) -> None:
        letter = dead_letter()
        self.replay(operator, letter)
        run_due_batches(timezone.now() + timedelta(minutes=1))
        letter.refresh_from_db()
        assert letter.replayed_attempt == 2
        text = text_of(operator, f"{PAGE}{letter.pk}/")
        assert "Replayed as attempt 2" in text
        for page in (text, text_of(operator, f"/jobs/{Task.objects.get().job_id}/")):
            assert "dead_letter.replay_batch" in page, "what was done to it is on its page and on its job's"
        late = operator.post(f"{PAGE}batches/{ReplayBatch.objects.get().pk}/undo/", follow=True).content.decode()
        assert "Nothing was changed: the replay batch is done already." in late

    def test_of_two_operators_one_wins_and_the_other_is_told(self, operator: Client) -> None:
        letter = dead_letter()
        bea = Client()
        bea.force_login(person("bea", Role.OPERATOR))
        self.replay(operator, letter)
        assert "user ada was faster" in self.replay(bea, letter)
        order = ReplayBatch.objects.get()
        bea.post(f"{PAGE}batches/{order.pk}/undo/")
        told = operator.post(f"{PAGE}batches/{order.pk}/undo/", follow=True).content.decode()
        assert "user bea was faster, the replay batch is undone" in told

    @pytest.mark.django_db(transaction=True)
    def test_who_presses_in_the_same_moment_is_told_too(self, operator: Client) -> None:
        letter, said, bea = dead_letter(), list[str](), Client()
        bea.force_login(person("bea", Role.OPERATOR))

        def press(client: Client) -> None:
            said.append(self.replay(client, letter))
            connections.close_all()

        pressing = [Thread(target=press, args=[client]) for client in (operator, bea)]
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [CREATE_LOCK])
            for one in pressing:
                one.start()
            wait_until(lambda: _that_wait(cursor) == 2, what="neither sees the other's order")
        for one in pressing:
            one.join()
        assert ReplayBatch.objects.count() == 1
        [done, told] = sorted(said, key=lambda text: "faster" in text)
        assert "1 dead letter will be replayed in 10 s" in done
        assert "was faster: 1 dead letter will be replayed already." in told

    def test_what_is_closed_already_is_not_promised(self, operator: Client) -> None:
        gone, still = dead_letter(discarded_at=timezone.now()), dead_letter()
        text = self.replay(operator, gone)
        assert "Nothing was changed: it was replayed or discarded before." in text
        assert not ReplayBatch.objects.exists()
        assert "Nothing matches" in text_of(operator, f"{PAGE}replay/?id={gone.pk}")
        text = self.replay(operator, gone, still)
        assert "1 dead letter had been replayed or discarded before." in text
        assert "1 dead letter will be replayed in 10 s" in text
        assert "You were faster" in self.replay(operator, still), "pressed twice"
        assert ReplayBatch.objects.get().dead_letter_ids == [still.pk]

    def test_an_id_may_be_written_in_any_way(self, operator: Client) -> None:
        letter = dead_letter()
        for written in (f"{{{letter.pk}}}", f"urn:uuid:{letter.pk}", f"+{letter.pk}"):
            text = text_of(operator, f"{PAGE}replay/?id={written}")
            assert f'href="/dead-letters/{letter.pk}/"' in text, "the way back"
            assert "a.wav" in text

    def test_all_that_match_with_a_dry_run_a_rate_and_a_priority(self, operator: Client) -> None:
        for _ in range(3):
            dead_letter()
        dead_letter("else", "f2")
        path = f"{PAGE}replay/?fingerprint=f1"
        assert "Dry run: 3 dead letters match now." in text_of(operator, path)
        form = {"rate": "60", "priority": "low", "reason": "fixed", "undo_seconds": "30", "parameters": ""}
        checked = operator.post(path, {**form, "check": "1"}).content.decode()
        assert "3 dead letters will be replayed, 60 a minute, with low priority" in checked
        assert not ReplayBatch.objects.exists(), "a look changes nothing"
        operator.post(path, {**form, "replay": "1"})
        order = ReplayBatch.objects.get()
        assert (order.matched, order.rate_per_minute, order.priority) == (3, 60, "low")
        assert order.starts_at - order.created_at == timedelta(seconds=30)
        assert OperatorAction.objects.filter(action="dead_letter.replay_batch", reason="fixed").exists()
        again = operator.post(path, {**form, "replay": "1"}, follow=True).content.decode()
        assert "You were faster: there is such a replay batch already." in again
        assert ReplayBatch.objects.count() == 1

    def test_edited_parameters_are_shown_as_a_diff_before_they_count(self, operator: Client) -> None:
        letter = dead_letter()
        path = f"{PAGE}replay/?id={letter.pk}"
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
    def test_what_cannot_be_done_is_refused_with_words_and_the_form_is_kept(
        self, operator: Client, form: dict[str, str]
    ) -> None:
        dead_letter()
        for step in ("check", "replay"):
            answer = operator.post(f"{PAGE}replay/", {**form, "reason": "keep me", step: "1"})
            assert answer.status_code == 400, step
            assert b'role="alert"' in answer.content
            assert b"keep me" in answer.content
        assert not ReplayBatch.objects.exists()

    def test_nothing_selected_changes_nothing(self, operator: Client) -> None:
        assert "no dead letter was selected" in self.replay(operator)
        for elsewhere in ("https://evil.example/", "abc", "/audit/"):
            answer = operator.post(f"{PAGE}replay-selected/", {"id": "x", "next": elsewhere})
            assert answer["Location"] == PAGE

    def test_a_diff_names_only_what_differs(self) -> None:
        assert [(line.kind, line.text.strip()) for line in diff({"a": 1, "b": 2}, {"b": 3, "a": 1})] == [
            (" ", "{"),
            (" ", '"a": 1,'),
            ("-", '"b": 2'),
            ("+", '"b": 3'),
            (" ", "}"),
        ]


class TestDiscard:
    def test_it_needs_a_reason_and_counts_once(self, operator: Client) -> None:
        letters = [dead_letter(), dead_letter()]
        form = {"id": [str(letter.pk) for letter in letters]}
        assert b"a reason is needed" in operator.post(f"{PAGE}discard/", form, follow=True).content
        done = operator.post(f"{PAGE}discard/", {**form, "reason": "old"}, follow=True).content.decode()
        assert "2 dead letters discarded." in done
        again = operator.post(f"{PAGE}discard/", {**form, "reason": "old"}, follow=True).content.decode()
        assert "Nothing was changed: it was replayed or discarded before." in again
        row = OperatorAction.objects.filter(action="dead_letter.discard").order_by("id")[0]
        assert (row.actor, row.reason, row.after) == ("user ada", "old", {"discarded": 2})


class TestViewer:
    def test_sees_no_button_and_is_refused(self, viewer: Client) -> None:
        letter = dead_letter()
        for path in (PAGE, f"{PAGE}?each=1", f"{PAGE}{letter.pk}/"):
            text = text_of(viewer, path)
            assert "Replay" not in text.split("<main", 1)[1]
            assert "Discard" not in text
            assert "checkbox" not in text
        for path in ("replay-selected/", "discard/", f"batches/{letter.pk}/undo/", "replay/"):
            assert viewer.post(PAGE + path, {"id": str(letter.pk), "reason": "x"}).status_code == 403
        assert viewer.get(f"{PAGE}replay/").status_code == 403
        assert not ReplayBatch.objects.exists()
        assert not OperatorAction.objects.exists()

    def test_nobody_sees_them_without_a_login(self) -> None:
        assert Client().get(PAGE).status_code == 302

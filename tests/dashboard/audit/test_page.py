"""The audit page: actions filtered by the query string, page by page, live, and as exports."""

from __future__ import annotations

import csv
import json
from datetime import timedelta
from io import StringIO
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from dalston_queue.audit.record import audited
from dalston_queue.audit.trail import PAGE
from dalston_queue.dashboard.audit.read import SHOWN, Changed, changes
from dalston_queue.models import AuditEntry, OperatorAction
from tests.dashboard.sockets import socket, until
from tests.web import Web

pytestmark = pytest.mark.django_db

JOB = "0193e2b0-0000-7000-8000-000000000000"


def record(action: str = "job.cancel", target: str = JOB, actor: str = "user ada", reason: str = "") -> OperatorAction:
    with audited(action, target, actor=actor, reason=reason, before={"status": "running"}) as row:
        row.after = {"status": "cancelled", "engine": "gpu-01"}
    return row


def get(client: Client, query: str = "") -> str:
    answer = client.get(f"/audit/{query}")
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


@pytest.mark.usefixtures("broker")
def test_a_button_for_what_is_not_there_leaves_no_row(admin_client: Client) -> None:
    for path in (
        f"/jobs/{JOB}/cancel/",
        f"/jobs/{JOB}/webhooks/{JOB}/send/",
        f"/tasks/{JOB}/actions/cancel/",
        f"/dead-letters/batches/{JOB}/undo/",
        "/nodes/nowhere/command/",
        "/nodes/nowhere/forget/",
        "/queues/nothing/pause/",
    ):
        assert admin_client.post(path, {"reason": "x", "do": "pause"}).status_code == 404, path
    for path in ("/dead-letters/discard/", "/dead-letters/replay-selected/"):
        assert admin_client.post(path, {"reason": "x", "id": JOB}).status_code == 302, path
    assert not OperatorAction.objects.exists()


def test_it_shows_actor_action_target_reason_and_changes(viewer: Client) -> None:
    record(reason="<script>wrong file</script>")
    record("dead_letter.replay", "3 dead letters", actor="token robot")
    text = get(viewer)
    assert "&lt;script&gt;wrong file" in text
    assert f'href="/jobs/{JOB}/"' in text
    assert "token robot" in text
    assert '<del class="mono">running</del> <ins class="mono">cancelled</ins>' in text
    assert ">3 dead letters<" in text, "a target that is no id is no link"
    record("dead_letter.replay_batch", str(UUID(int=7)))
    assert "/dead-letters/0" not in get(viewer), "a replay batch is no dead letter"
    assert "unfinished</span>" not in text


def test_an_action_without_an_outcome_is_marked_and_can_be_filtered(viewer: Client) -> None:
    record()
    audited("node.drain", "gpu-01", actor="user ada").__enter__()
    text = get(viewer, "?unfinished=1")
    assert "unfinished</span>" in text
    assert "gpu-01" in text
    assert "job.cancel" not in text.split("<tbody", 1)[1]


def test_the_query_string_filters_by_actor_action_target_and_time(viewer: Client) -> None:
    record()
    record("node.drain", "gpu-01", actor="user bea")
    for query in ("?actor=bea", "?actor=user+bea", "?action=node.drain", "?target=gpu-01"):
        rows = get(viewer, query).split("<tbody", 1)[1]
        assert "gpu-01" in rows, query
        assert JOB not in rows, query
    assert "No action matches" in get(viewer, f"?since={(timezone.now() + timedelta(hours=1)):%Y-%m-%dT%H:%M}")
    assert "gpu-01" in get(viewer, f"?since={(timezone.now() - timedelta(hours=1)):%Y-%m-%dT%H:%M}")
    assert "No action matches" in get(viewer, "?until=2020-01-01")


@pytest.mark.parametrize("query", ["?since=yesterday", "?before=x", "?actor=%00", f"?target={'x' * 201}"])
def test_an_invalid_query_string_says_why(viewer: Client, query: str) -> None:
    answer = viewer.get(f"/audit/{query}")
    assert answer.status_code == 400
    assert b'role="alert"' in answer.content


def test_pages_follow_each_other_without_a_gap(viewer: Client) -> None:
    ids = [record(target=f"job {number}").pk for number in range(SHOWN + 5)]
    first = get(viewer, "?action=job.cancel")
    assert f'href="?action=job.cancel&amp;before={ids[5]}"' in first
    assert (f'id="action-{ids[5]}"' in first, f'id="action-{ids[4]}"' in first) == (True, False)
    second = get(viewer, f"?action=job.cancel&before={ids[5]}")
    assert [f'id="action-{pk}"' in second for pk in ids[:6]] == [True] * 5 + [False]
    assert "Older" not in second
    assert 'href="?action=job.cancel"' in second


def test_it_needs_a_login() -> None:
    for path in ("/audit/", "/audit/export.csv"):
        assert Client().get(path).status_code == 302


def test_a_spreadsheet_runs_no_formula_of_an_operator(viewer: Client) -> None:
    record(reason='=HYPERLINK("http://x")', actor="@evil", target="-1+1")
    text = b"".join(viewer.get("/audit/export.csv")).decode()
    [header, row] = csv.reader(StringIO(text))
    cells = dict(zip(header, row, strict=True))
    assert cells["reason"] == '\'=HYPERLINK("http://x")'
    assert (cells["actor"], cells["target"]) == ("'@evil", "'-1+1")
    assert json.loads(cells["after"]) == {"status": "cancelled", "engine": "gpu-01"}
    assert cells["finished_hash"] == AuditEntry.objects.get(fact="finished").hash


def test_an_unknown_export_is_not_found_and_a_bad_filter_is_refused(viewer: Client) -> None:
    assert viewer.get("/audit/export.xlsx").status_code == 404
    assert viewer.get("/audit/export.csv?since=never").status_code == 400


@pytest.mark.django_db(transaction=True)
def test_an_export_has_all_that_match_over_the_real_server(web: Web) -> None:
    OperatorAction.objects.bulk_create(
        OperatorAction(at=timezone.now(), actor="user ada", action="job.cancel", target=f"job {number}")
        for number in range(PAGE + 3)
    )
    record("node.drain", "gpu-01")
    with web.log_in(User.objects.create_user("bea")) as session:
        answer = session.get("/audit/export.jsonl?action=job.cancel")
        rows = [json.loads(line) for line in answer.text.splitlines()]
        assert len(rows) == PAGE + 3
        assert rows[0]["target"] == f"job {PAGE + 2}"
        assert rows[0]["begun_link"] == PAGE + 3
        assert answer.headers["content-disposition"].endswith('.jsonl"')
        with socket(web, session, "audit/?actor=ada") as connection:
            until(connection, 'id="actions"')
            record(reason="another's", actor="user bea")
            record(reason="pushed")
            assert "another" not in until(connection, "pushed")


def test_changed_and_unchanged_fields_are_distinguished() -> None:
    before = {"a": 1, "b": {"c": None}, "gone": [1]}
    assert changes(before, {"a": 2, "b": {"c": None}, "new": "x"}) == (
        Changed("a", "1", "2"),
        Changed("b.c", "none", "none"),
        Changed("gone", "[1]", None),
        Changed("new", None, "x"),
    )
    assert changes(None, None) == ()
    assert changes(None, {str(number): number for number in range(100)})[-1].field == "… and 40 more, all in the export"

"""The audit chain: every fact is linked, the database refuses changes, and changes past its triggers are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from itertools import pairwise

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from dalston_queue.audit.chain import Head, head, verify
from dalston_queue.audit.record import audited
from dalston_queue.models import ApiToken, AuditEntry, OperatorAction, Project
from dalston_queue.models.audit import START
from dalston_queue.orchestrator.duties.housekeeping import AuditBroken, check_audit
from tests.jobs.together import at_once

pytestmark = pytest.mark.django_db


def record(target: str = "job 1", **more: object) -> OperatorAction:
    with audited("job.cancel", target, actor="user ada", reason="wrong file", before={"status": "running"}) as row:
        row.after = {"status": "cancelled", "share": 1e20, "odd": "é\u2028\\u0000", **more}
    return row


@contextmanager
def by_force() -> Iterator[None]:
    """What a user with all rights on the tables can do."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # checks that still wait forbid to alter a table
        tables = ("dalston_operator_action", "dalston_audit_entry")
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        yield
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


def test_an_action_is_two_links_and_the_chain_holds() -> None:
    record()
    record("job 2")
    facts = list(AuditEntry.objects.order_by("id").values_list("id", "fact", "previous_hash", "hash"))
    assert [(position, fact) for position, fact, *_ in facts] == [
        (1, "begun"),
        (2, "finished"),
        (3, "begun"),
        (4, "finished"),
    ]
    assert facts[0][2] == START
    assert all(later[2] == earlier[3] for earlier, later in pairwise(facts))
    assert verify() == verify(last=2)
    assert verify().problem == ""
    assert verify().head == Head(4, facts[3][3]) == head()


def test_an_empty_trail_is_whole() -> None:
    assert verify().problem == ""
    assert verify().head == Head(0, START)


def test_an_action_that_fails_has_its_error_and_one_whose_process_dies_stays_unfinished() -> None:
    with pytest.raises(RuntimeError), audited("node.drain", "gpu-01", actor="user ada"):
        raise RuntimeError("no such node\x00")
    failed = OperatorAction.objects.get()
    assert failed.after == {"failed": "RuntimeError: no such node\ufffd"}
    assert failed.finished_at is not None
    died = audited("node.drain", "gpu-02", actor="user ada")
    row = died.__enter__()
    assert verify().unfinished == (row.pk,)
    assert verify().problem == ""


@pytest.mark.parametrize(
    "change",
    [
        {"actor": "user eve"},
        {"reason": "because"},
        {"after": {"status": "completed"}},
        {"finished_at": None},
        {"at": "2020-01-01T00:00:00Z"},
        {"user_id": 1},
    ],
)
def test_the_database_refuses_to_change_a_row(change: dict[str, object]) -> None:
    row = record()
    with pytest.raises(IntegrityError, match="kept as it was written"), transaction.atomic():
        OperatorAction.objects.filter(pk=row.pk).update(**change)


def test_the_database_refuses_to_delete_a_row_or_a_link() -> None:
    record()
    for rows in (OperatorAction.objects.all(), AuditEntry.objects.all()):
        with pytest.raises(IntegrityError, match="no delete of"), transaction.atomic():
            rows.delete()
    with pytest.raises(IntegrityError, match="no update of"), transaction.atomic():
        AuditEntry.objects.update(content="{}")


@pytest.mark.parametrize("emptied", ["dalston_operator_action", "dalston_audit_entry", "auth_user"])
def test_the_database_refuses_to_empty_the_tables(emptied: str) -> None:
    with connection.cursor() as cursor:
        for table in ("dalston_operator_action", "dalston_audit_entry"):
            cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER audit_keep_all")  # for other tests it is off
        with pytest.raises(IntegrityError, match="no truncate of dalston_"), transaction.atomic():
            cursor.execute(f"TRUNCATE {emptied} CASCADE")


def test_deleting_a_user_and_a_token_keeps_their_names_and_the_chain() -> None:
    ada = User.objects.create_user("ada")
    token, _ = ApiToken.issue(Project.objects.create(name="alpha"), "robot", ["operate"])
    with audited("job.cancel", "job 1", actor="user ada", user=ada, token=token) as row:
        row.after = {}
    ada.delete()
    token.delete()
    row.refresh_from_db()
    assert (row.actor, row.user, row.token) == ("user ada", None, None)
    assert verify().problem == ""


@pytest.mark.parametrize(
    ("tamper", "problem"),
    [
        (lambda: OperatorAction.objects.filter(pk=ids()[1]).update(reason="nothing"), "does not say what was written"),
        (lambda: OperatorAction.objects.filter(pk=ids()[1]).update(after=None), "does not say what was written"),
        (lambda: OperatorAction.objects.filter(pk=ids()[1]).delete(), "was deleted: its links are there"),
        (lambda: AuditEntry.objects.filter(pk=3).update(content="{}"), "link 3 (action"),
        (lambda: AuditEntry.objects.filter(pk=3).update(hash="0" * 64), "link 3 (action"),
        (lambda: AuditEntry.objects.filter(pk=3).delete(), "link 3 is missing"),
        (lambda: AuditEntry.objects.filter(pk=1).delete(), "link 1 is missing"),
        (lambda: AuditEntry.objects.filter(pk=6).delete(), "does not say what was written"),
        (lambda: AuditEntry.objects.all().delete(), "has no link in the chain"),
        (
            lambda: OperatorAction.objects.create(at=timezone.now(), actor="user eve", action="x", target="y"),
            "has no link in the chain",
        ),
    ],
)
def test_a_change_past_the_triggers_is_found(tamper: Callable[[], object], problem: str) -> None:
    for number in range(3):
        record(f"job {number}")
    with by_force():
        tamper()
    assert problem in verify().problem
    with pytest.raises(CommandError, match="is not as it was written") as refused:
        call_command("verify_audit", stdout=StringIO(), stderr=StringIO())
    assert refused.value.returncode == 1


def ids() -> list[int]:
    return list(OperatorAction.objects.order_by("pk").values_list("pk", flat=True))


def test_a_cut_off_end_and_a_rewritten_chain_are_found_with_a_noted_head() -> None:
    for number in range(3):
        record(f"job {number}")
    noted = head()
    out = StringIO()
    call_command("verify_audit", "--expect", str(noted), stdout=out)
    assert str(noted) in out.getvalue()
    with by_force():
        AuditEntry.objects.filter(action_id=ids()[2]).delete()
        OperatorAction.objects.filter(pk=ids()[2]).delete()
    assert verify().problem == "", "the chain alone cannot know"
    assert verify(noted).problem == "the chain was cut off: it ends at link 4, and 6 were noted"
    record("another")
    assert verify(noted).problem == "link 6 is not the one that was noted: the chain was rewritten"


def test_a_head_is_parsed_or_refused() -> None:
    assert Head.parse(str(Head(7, "a" * 64))) == Head(7, "a" * 64)
    with pytest.raises(CommandError, match="is no head"):
        call_command("verify_audit", "--expect", "7:xyz")


@pytest.mark.django_db(transaction=True)
def test_writers_at_the_same_moment_make_one_chain() -> None:
    def write() -> None:
        for number in range(5):
            record(f"job {number}")

    at_once(*[write] * 4)
    assert verify().problem == ""
    assert verify().head.entries == 40


def test_the_hourly_duty_fails_when_the_trail_was_changed() -> None:
    record()
    assert check_audit(timezone.now()).found == {"links": 2}
    with by_force():
        OperatorAction.objects.update(reason="nothing")
    with pytest.raises(AuditBroken, match="does not say what was written"):
        check_audit(timezone.now())

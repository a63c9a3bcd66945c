"""Operator actions on one task: cancel, requeue, dead-letter, from the pages of its queue, its job and its own."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from dalston_queue.accounts.roles import Role
from dalston_queue.broker import Broker
from dalston_queue.models import OperatorAction, Task
from tests.dashboard.people import logged_in
from tests.dashboard.running import Running, notice
from tests.jobs import make
from tests.orchestrator.support import Steps, engine

pytestmark = [pytest.mark.django_db, pytest.mark.keeps_keys]


def act_on(client: Client, task: Task, action: str, **form: object) -> str:
    return notice(client, client.post(f"/tasks/{task.id}/actions/{action}/", {"reason": "it hangs", **form}))


def test_the_operator_gets_the_form_with_what_was_seen(operator: Client, running: Running) -> None:
    task, claimed, _ = running
    page = operator.get(f"/queues/echo/?owner=gpu-01.demo.0.boot&task={task.id}").content.decode()
    assert f'name="entry" value="{claimed.entry_id}"' in page
    assert f'<tr id="running-{task.id}">' in page
    assert f"?owner=gpu-01.demo.0.boot&amp;task={task.id}#actions" in page, "the filter stays"


def test_of_two_requeues_one_counts_and_the_second_says_so(
    operator: Client, running: Running, steps: Steps, broker: Broker
) -> None:
    task, claimed, _ = running
    other = logged_in("omar", Role.OPERATOR)
    assert act_on(operator, task, "requeue", entry=claimed.entry_id).startswith("Requeued")
    assert "Another operator was faster" in act_on(other, task, "requeue", entry=claimed.entry_id)
    with engine(broker, name="gpu-02.demo.0.boot") as second:
        second.claim()
        assert "another engine runs it now" in act_on(operator, task, "requeue", entry=claimed.entry_id)
        steps.drain()
    rows = OperatorAction.objects.filter(action="task.requeue").order_by("id")
    assert [row.actor for row in rows] == ["user olga", "user omar", "user olga"]
    task.refresh_from_db()
    assert task.deliveries == task.retry_count == 0


def test_dead_letter_and_cancel_report_their_outcome(operator: Client, running: Running, steps: Steps) -> None:
    task, _, _ = running
    assert act_on(operator, task, "dead-letter", attempt="1").startswith("Dead-lettering: it was taken from its engine")
    steps.drain()
    task.refresh_from_db()
    assert (task.status, task.error) == (
        "dead_letter",
        "dead-lettered by user olga: it hangs (it was rejected, so another attempt would end the same way)",
    )
    assert "dead letter already" in act_on(operator, task, "cancel")
    assert "dead letter already" in act_on(operator, task, "dead-letter", attempt="1")
    waits = make.single("echo")
    steps.poll()
    assert act_on(operator, waits, "cancel").startswith("Cancel")
    steps.drain()


def test_the_pages_of_the_task_and_its_job_have_the_same_actions(
    operator: Client, viewer: Client, running: Running, steps: Steps
) -> None:
    task, claimed, _ = running
    here = f"/tasks/{task.id}/"
    for client, buttons in ((operator, True), (viewer, False)):
        assert ('href="?actions=1#actions"' in client.get(here).content.decode()) is buttons
        assert (f"{here}?actions=1#actions" in client.get(f"/jobs/{task.job_id}/").content.decode()) is buttons
        assert ("Requeue" in client.get(f"{here}?actions=1").content.decode()) is buttons
    page = operator.get(f"{here}?actions=1").content.decode()
    form = dict(re.findall(r'<input type="hidden" name="(next|entry|attempt)" value="([^"]*)"', page))
    assert form == {"next": here, "entry": claimed.entry_id, "attempt": "1"}
    assert act_on(operator, task, "requeue", **form).startswith("Requeued")
    assert act_on(operator, task, "dead-letter", **form).startswith("Dead-lettered")
    steps.drain()
    for path in (here, f"/jobs/{task.job_id}/"):
        assert "Actions…" not in operator.get(path).content.decode(), "it is over"
    assert "It is not queued any more: it is dead letter." in operator.get(f"{here}?actions=1").content.decode()


def test_without_a_reason_nothing_happens(operator: Client, running: Running) -> None:
    task, _, _ = running
    assert act_on(operator, task, "cancel", reason="  ") == "Nothing was changed: a reason is needed."
    assert not OperatorAction.objects.exists()
    assert operator.post(f"/tasks/{task.id}/actions/explode/", {"reason": "x"}).status_code == 404


def test_an_action_redirects_to_our_own_pages_only(operator: Client, running: Running) -> None:
    task, _, _ = running
    for elsewhere in ("https://evil.example/", "//evil.example/", "abc", "dashboard:overview"):
        form = {"reason": "", "next": elsewhere}
        assert operator.post(f"/tasks/{task.id}/actions/cancel/", form)["Location"] == "/queues/echo/"

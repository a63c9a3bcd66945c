"""The admin: every row opens, what the lifecycle owns cannot be edited, a token is shown once."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.jobs.operator.replay_batches import create_replay_batch
from dalston_queue.jobs.submit.spec import single_task
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import (
    ApiToken,
    DeadLetter,
    Duty,
    Engine,
    Leadership,
    Limit,
    Node,
    OperatorAction,
    Project,
    Schedule,
    Task,
    TaskEvent,
    WebhookDelivery,
)
from dalston_queue.models.accounts import digest_of

NOUNS = [
    "apitoken",
    "deadletter",
    "duty",
    "engine",
    "job",
    "leadership",
    "limit",
    "node",
    "operatoraction",
    "project",
    "replaybatch",
    "schedule",
    "task",
    "webhookdelivery",
]
EDITABLE = {"limit", "project", "schedule"}


@pytest.fixture
def rows(db: None) -> dict[str, str]:
    """One row of each kind, and its primary key."""
    now = timezone.now()
    project = Project.objects.create(name="alpha")
    token, _ = ApiToken.issue(project, "laptop", ["read"])
    made = submit(single_task("echo", parameters={"x": 1}), project=project, token=token)
    task = Task.objects.get(pk=made.task_ids[0])
    event = {"from_status": "pending", "to_status": "ready", "attempt": 1, "deliveries": 0, "at": now}
    TaskEvent.objects.create(task=task, transition="make_ready", **event)
    dead_letter = DeadLetter.objects.create(task=task, queue="echo", cause="error", fingerprint="f", created_at=now)
    Node.objects.create(id="gpu-01", state="active", first_seen_at=now, last_seen_at=now)
    Engine.objects.create(id="gpu-01.demo.0.b", node_id="gpu-01", state="ready", first_seen_at=now, last_seen_at=now)
    action = OperatorAction.objects.create(at=now, actor="ada", action="job.cancel", target=str(task.job_id))
    Duty.objects.create(name="scanner", every_s=60, last_run_at=now, duration_ms=1, repaired=0, holder="here")
    Leadership.objects.create(role="orchestrator", term=1, holder="here", since=now)
    schedule = Schedule.objects.create(project=project, name="nightly", cron="0 6 * * *", stages=[{"stage": "echo"}])
    batch = create_replay_batch([dead_letter.pk], actor="ada")
    limit = Limit.objects.create(queue="alpha", max_in_flight=3)
    url = "https://example.com/hook"
    webhook = WebhookDelivery.objects.create(
        job=task.job, url=url, origin="https://example.com", status="failed", finished_at=now, next_at=now
    )
    return {
        "apitoken": str(token.pk),
        "deadletter": str(dead_letter.pk),
        "duty": "scanner",
        "engine": "gpu-01.demo.0.b",
        "job": str(task.job_id),
        "leadership": "orchestrator",
        "limit": str(limit.pk),
        "node": "gpu-01",
        "operatoraction": str(action.pk),
        "project": str(project.pk),
        "replaybatch": str(batch.pk),
        "schedule": str(schedule.pk),
        "task": str(task.pk),
        "webhookdelivery": str(webhook.pk),
    }


def test_every_table_of_ours_is_tried_here() -> None:
    ours = [model._meta.model_name or "" for model in site._registry if model._meta.app_label == "dalston_queue"]
    assert sorted(ours) == NOUNS


@pytest.mark.parametrize("noun", NOUNS)
def test_every_list_and_every_row_opens(admin_client: Client, rows: dict[str, str], noun: str) -> None:
    base = f"/admin/dalston_queue/{noun}/"
    for query in ("", "?q=alpha", f"?q={rows[noun]}", "?q=0193e2b0-0000-7000-8000-000000000000"):
        assert admin_client.get(base + query).status_code == 200, query
    page = admin_client.get(f"{base}{rows[noun]}/change/")
    assert page.status_code == 200, page
    assert (b'name="_save"' in page.content) == (noun in EDITABLE)


@pytest.mark.parametrize("noun", [noun for noun in NOUNS if noun not in EDITABLE])
def test_what_the_lifecycle_owns_cannot_be_changed_or_deleted(
    admin_client: Client, rows: dict[str, str], noun: str
) -> None:
    base = f"/admin/dalston_queue/{noun}/{rows[noun]}"
    assert admin_client.post(f"{base}/change/", {"status": "completed"}).status_code == 403
    assert admin_client.post(f"{base}/delete/", {"post": "yes"}).status_code == 403


def test_a_pasted_task_id_finds_its_job(admin_client: Client, rows: dict[str, str]) -> None:
    page = admin_client.get(f"/admin/dalston_queue/job/?q={rows['task']}")
    assert rows["job"] in page.content.decode()


def test_a_tokens_page_never_shows_its_digest(admin_client: Client, rows: dict[str, str]) -> None:
    digest = ApiToken.objects.get().digest.encode()
    for path in ("", f"{rows['apitoken']}/change/"):
        assert digest not in admin_client.get(f"/admin/dalston_queue/apitoken/{path}").content


def test_the_form_of_a_new_token_has_the_rate_preset_of_the_setting(admin_client: Client, settings: Settings) -> None:
    settings.DALSTON_TOKEN_RATE_PRESET = "limited"
    page = admin_client.get("/admin/dalston_queue/apitoken/add/").content.decode()
    assert '<option value="limited" selected>' in page


def test_a_new_token_is_shown_once_and_works(admin_client: Client, rows: dict[str, str]) -> None:
    form = {"project": rows["project"], "name": "robot", "scopes": ["submit", "read"], "rate_preset": ""}
    form |= {"expires_at_0": "", "expires_at_1": ""}
    page = admin_client.post("/admin/dalston_queue/apitoken/add/", form)
    found = re.search(r"dal_[\w-]+", page.content.decode())
    assert found, page.content.decode()
    assert "no-store" in page["Cache-Control"]
    token = ApiToken.objects.get(digest=digest_of(found.group()))
    assert (token.name, token.scopes) == ("robot", ["submit", "read"])
    assert ApiToken.objects.filter(name="robot").count() == 1
    action = OperatorAction.objects.get(action="token.issue")
    assert (action.target, action.actor, action.after["scopes"]) == (str(token.pk), "user admin", ["submit", "read"])
    assert found.group().encode() not in admin_client.get(f"/admin/dalston_queue/apitoken/{token.pk}/change/").content


def test_revoking_is_an_action_on_the_list(admin_client: Client, rows: dict[str, str]) -> None:
    admin_client.post("/admin/dalston_queue/apitoken/", {"action": "revoke", "_selected_action": [rows["apitoken"]]})
    assert ApiToken.objects.get(pk=rows["apitoken"]).revoked_at is not None
    action = OperatorAction.objects.get(action="token.revoke")
    assert (action.target, action.actor, action.user) == (rows["apitoken"], "user admin", User.objects.get())


def test_a_longer_list_needs_no_more_queries(
    admin_client: Client, rows: dict[str, str], django_assert_max_num_queries: Callable[..., object]
) -> None:
    project = Project.objects.get()
    for _ in range(15):
        submit(single_task("echo"), project=project)
    for noun in ("job", "task"):
        with django_assert_max_num_queries(6):  # type: ignore[attr-defined]
            assert admin_client.get(f"/admin/dalston_queue/{noun}/").content.count(b"echo") >= 15


def test_a_schedule_that_is_made_changed_and_deleted_is_on_record(admin_client: Client, rows: dict[str, str]) -> None:
    base = "/admin/dalston_queue/schedule/"
    form = {"project": rows["project"], "name": "hourly", "cron": "0 * * * *", "time_zone": "UTC", "priority": "low"}
    form |= {"stages": '[{"stage": "echo"}]', "enabled": "on"}
    assert admin_client.post(f"{base}add/", form).status_code == 302
    made = Schedule.objects.get(name="hourly")
    admin_client.post(f"{base}{made.pk}/change/", {**form, "cron": "5 * * * *"})
    admin_client.post(base, {"action": "delete_selected", "_selected_action": [str(made.pk)], "post": "yes"})
    assert not Schedule.objects.filter(name="hourly").exists()
    actions = OperatorAction.objects.filter(target=str(made.pk)).order_by("id")
    assert [row.action for row in actions] == ["schedule.create", "schedule.change", "schedule.delete"]
    assert (actions[1].before["cron"], actions[1].after["cron"]) == ("0 * * * *", "5 * * * *")
    assert {row.actor for row in actions} == {"user admin"}


def test_a_password_that_an_admin_sets_is_on_record_and_not_in_it(admin_client: Client) -> None:
    bea = User.objects.create_user("bea")
    form = {"password1": "a long pass phrase", "password2": "a long pass phrase", "usable_password": "true"}
    assert admin_client.post(f"/admin/auth/user/{bea.pk}/password/", form).status_code == 302
    row = OperatorAction.objects.get(action="user.password")
    assert (row.target, row.actor, row.after) == ("bea", "user admin", {"password": "changed"})


def test_a_limit_is_set_with_the_checks_and_records_of_its_page(admin_client: Client, rows: dict[str, str]) -> None:
    base = "/admin/dalston_queue/limit/"
    form = {"queue": "echo", "project": rows["project"], "concurrency_key": "*", "max_in_flight": "3"}
    refused = admin_client.post(f"{base}add/", {**form, "starts_per_minute": "60"})
    assert "each key for itself can be limited in flight only" in refused.content.decode()
    assert admin_client.post(f"{base}add/", form).status_code == 302
    limit = Limit.objects.get(queue="echo")
    assert (limit.max_in_flight, limit.project_id) == (3, Project.objects.get().pk)
    change = f"{base}{limit.pk}/change/"
    assert admin_client.post(change, {"max_in_flight": "", "starts_per_minute": ""}).status_code == 200, "an error"
    for number in ("5", "5"):  # the second changes nothing
        assert admin_client.post(change, {"max_in_flight": number, "queue": "other"}).status_code == 302
    assert admin_client.post(f"{base}{limit.pk}/delete/", {"post": "yes"}).status_code == 302
    actions = OperatorAction.objects.filter(action__startswith="limit").order_by("id")
    scope = "queue echo, project alpha, each key"
    assert list(actions.values_list("action", "target")) == [
        ("limit.set", scope), ("limit.set", scope), ("limit.remove", scope),
    ]  # fmt: skip
    assert not Limit.objects.filter(queue="echo").exists()


def test_a_weight_is_changed_on_record(admin_client: Client, rows: dict[str, str]) -> None:
    path = f"/admin/dalston_queue/project/{rows['project']}/change/"
    assert admin_client.post(path, {"name": "alpha", "weight": "0"}).status_code == 200, "an error"
    assert admin_client.post(path, {"name": "alpha", "weight": "3"}).status_code == 302
    row = OperatorAction.objects.get(action="project.change")
    assert (row.before["weight"], row.after["weight"]) == (1, 3)

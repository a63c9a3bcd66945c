"""The page of limits: what is used of them, the shares of projects, and operators who change them with a reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.jobs.order.refill import refill
from dalston_queue.models import Limit, OperatorAction, Project
from tests.dashboard.running import notice
from tests.jobs import make

pytestmark = [pytest.mark.django_db, pytest.mark.keeps_keys, pytest.mark.usefixtures("broker")]
EACH = {"queue": "echo", "project": "tests", "concurrency_key": "*", "max_in_flight": "2", "starts_per_minute": ""}


def ready(count: int, key: str | None = None) -> None:
    for _ in range(count):
        make.claim(make.single("echo", concurrency_key=key).job)


def row(page: str, row_id: str) -> str:
    found = re.search(rf'<tr id="{row_id}">.*?</tr>', page)
    assert found, page
    return re.sub(r"<[^>]*>", " ", found.group())


def test_without_a_limit_the_page_says_what_one_is_for(viewer: Client) -> None:
    page = viewer.get("/limits/").content.decode()
    assert "software with few licences" in page
    assert 'id="nav-limits" href="/limits/" aria-current="page"' in page


def test_it_shows_what_is_used_and_what_waits(viewer: Client, settings: Settings) -> None:
    settings.DALSTON_WINDOW = 32
    each = Limit.objects.create(queue="echo", project=make.project(), concurrency_key="*", max_in_flight=2)
    rate = Limit.objects.create(queue="other", starts_per_minute=60)
    ready(5, "42")
    ready(1, "43")
    refill(None, timezone.now())
    page = viewer.get("/limits/").content.decode()
    shown = row(page, f"limit-{each.pk}")
    for words in ("echo", "project tests", "each key", "most in flight: key 42; 1 key at the limit", "2 of 2"):
        assert words in shown
    assert shown.split()[-1] == "3", "waiting"
    assert "60" in row(page, f"limit-{rate.pk}")
    assert "echo: 3 of 3" in row(page, "project-tests")


def test_it_shows_what_each_project_has_stored(viewer: Client, settings: Settings) -> None:
    settings.DALSTON_MAX_STORED_BYTES = 5 * 1024 * 1024
    Project.objects.create(name="many-files", stored_bytes=2 * 1024 * 1024)
    Project.objects.create(name="none")
    page = viewer.get("/limits/").content.decode()
    assert "2.0 MB of 5.0 MB stored" in row(page, "project-many-files").replace("\xa0", " ")
    assert "stored" not in row(page, "project-none")


def test_a_limit_is_set_changed_and_removed_with_a_reason(operator: Client) -> None:
    make.project()
    assert "a reason is needed" in operator.post("/limits/set/", EACH).content.decode()
    assert notice(operator, operator.post("/limits/set/", {**EACH, "reason": "two licences"})).startswith("Set: queue")
    limit = Limit.objects.get()
    again = operator.post("/limits/set/", {**EACH, "reason": "two licences"})
    assert notice(operator, again).startswith("Nothing was changed")
    form = operator.get(f"/limits/?limit={limit.pk}").content.decode()
    assert "Limit of queue echo, project tests, each key" in form
    more = {**EACH, "max_in_flight": "4", "reason": "four licences"}
    assert notice(operator, operator.post("/limits/set/", more)).startswith("Changed: queue")
    limit.refresh_from_db()
    assert limit.max_in_flight == 4
    remove = f"/limits/{limit.pk}/remove/"
    assert "a reason is needed" in notice(operator, operator.post(remove))
    assert notice(operator, operator.post(remove, {"reason": "no licences"})).startswith("Removed")
    assert "removed already" in notice(operator, operator.post(remove, {"reason": "no licences"}))
    actions = list(OperatorAction.objects.order_by("id").values_list("actor", "action", "reason"))
    assert actions == [
        ("user olga", "limit.set", "two licences"),
        ("user olga", "limit.set", "four licences"),
        ("user olga", "limit.remove", "no licences"),
    ]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"queue": "", "project": "", "concurrency_key": ""}, "Queue: name a queue, or a project, or both."),
        ({"project": "nosuch"}, "Project: there is no project"),
        ({"concurrency_key": "ü"}, "Key: "),
        ({"max_in_flight": "many"}, "In flight: write a whole number"),
        ({"starts_per_minute": "60"}, "Starts a minute: each key for itself"),
    ],
)
def test_a_wrong_form_keeps_its_fields_and_says_which_is_wrong(
    operator: Client, changed: dict[str, str], words: str
) -> None:
    make.project()
    answer = operator.post("/limits/set/", {**EACH, **changed, "reason": "because of licences"})
    page = answer.content.decode()
    assert answer.status_code == 400
    assert f"Nothing was changed. {words}" in page
    assert 'value="because of licences"' in page
    assert not Limit.objects.exists() and not OperatorAction.objects.exists()


def test_a_weight_is_set_with_a_reason(operator: Client) -> None:
    make.project()
    form = operator.get("/limits/?project=tests").content.decode()
    assert "Weight of tests" in form
    done = operator.post("/limits/weight/", {"project": "tests", "weight": "3", "reason": "three shares"})
    assert notice(operator, done).startswith("tests has weight 3 now")
    assert Project.objects.get(name="tests").weight == 3
    wrong = operator.post("/limits/weight/", {"project": "tests", "weight": "", "reason": "x"}).content.decode()
    assert "Weight: it is from 1 to 1000" in wrong


def test_a_viewer_sees_no_button_and_is_refused(viewer: Client) -> None:
    limit = Limit.objects.create(queue="echo", max_in_flight=3)
    page = viewer.get(f"/limits/?limit={limit.pk}").content.decode()
    assert "Actions…" not in page and "New limit" not in page and "Remove" not in page
    for path in ("/limits/set/", "/limits/weight/", f"/limits/{limit.pk}/remove/"):
        assert viewer.post(path, {**EACH, "reason": "x"}).status_code == 403
    assert not OperatorAction.objects.exists()


def test_the_reads_do_not_grow_with_limits_and_projects(
    viewer: Client, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    for number in range(30):
        project = Project.objects.create(name=f"p{number}")
        Limit.objects.create(project=project, max_in_flight=number)
    ready(3)
    with django_assert_max_num_queries(15):
        page = viewer.get("/limits/").content.decode()
    assert page.count('<tr id="limit-') == 30
    assert page.count('<tr id="project-') == 31

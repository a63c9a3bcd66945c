"""The page of a queue: running and waiting tasks, filters and pages, pause and resume."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.db import connection, transaction
from django.test import Client
from pytest_django import Settings

from dalston_queue.broker import Broker
from dalston_queue.broker.errors import Unavailable
from dalston_queue.broker.protocol.messages import TaskMessage
from dalston_queue.dashboard.queue.query import QueueQuery
from dalston_queue.dashboard.queue.read import read_queue
from dalston_queue.dashboard.queue.render import fragments_of
from dalston_queue.jobs.submit.spec import single_task
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import OperatorAction, Project, StagePause, Task
from tests.dashboard.running import Running, notice
from tests.jobs import make
from tests.orchestrator.support import Steps, engine

pytestmark = [pytest.mark.django_db, pytest.mark.keeps_keys]


def test_it_shows_running_and_waiting_tasks(viewer: Client, running: Running, steps: Steps) -> None:
    task, _, consumer = running
    consumer.renew_all({str(task.id): {"fraction": 0.4, "message": "minute 3 of 8"}})
    waits = make.single("echo", priority="high")
    steps.poll()
    page = viewer.get("/queues/echo/").content.decode()
    row = re.search(rf'<tr id="running-{task.id}">.*?</tr>', page).group()
    for shown in (
        "gpu-01.demo.0.boot",
        "under 10 s",
        "renewed",
        'value="40"',
        "minute 3 of 8",
        f"/jobs/{task.job_id}/",
    ):
        assert shown in row
    table = re.search(r'<tbody id="waiting">.*?</tbody>', page, re.DOTALL).group()
    assert str(waits.id) in table
    assert ">high<" in table
    assert "1–1 of 1 running" in page
    assert "1 waiting, and no ready engine serves it." in page


def test_a_viewer_sees_no_button_and_is_refused(viewer: Client, running: Running) -> None:
    task, _, _ = running
    page = viewer.get(f"/queues/echo/?task={task.id}").content.decode()
    assert "Actions…" not in page
    assert "Requeue" not in page
    assert "Pause queue" not in page
    for path in (f"/tasks/{task.id}/actions/cancel/", "/queues/echo/pause/"):
        assert viewer.post(path, {"reason": "x", "do": "pause"}).status_code == 403
    assert not OperatorAction.objects.exists()


def test_pause_needs_a_reason_and_a_second_press_says_so(operator: Client, steps: Steps) -> None:
    make.single("echo")
    steps.poll()
    pause = "/queues/echo/pause/"
    assert notice(operator, operator.post(pause, {"do": "pause"})).startswith("Nothing was changed")
    assert notice(operator, operator.post(pause, {"do": "pause", "reason": "disk full"})).startswith("Paused")
    assert notice(operator, operator.post(pause, {"do": "pause", "reason": "disk full"})).startswith(
        "It was paused already"
    )
    page = operator.get("/queues/echo/").content.decode()
    assert "Paused by user olga" in page
    assert "disk full" in page
    assert notice(operator, operator.post(pause, {"do": "resume"})).startswith("Resumed")
    assert not StagePause.objects.exists()
    assert OperatorAction.objects.filter(action__startswith="stage.").count() == 3


def test_a_queue_that_does_not_exist_cannot_be_paused(operator: Client, broker: Broker) -> None:
    for do in ("pause", "resume"):
        assert operator.post("/queues/ecoh/pause/", {"do": do, "reason": "disk full"}).status_code == 404
    assert not StagePause.objects.exists() and not OperatorAction.objects.exists()


def test_a_pause_that_does_not_reach_redis_says_so(
    operator: Client, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise Unavailable("Redis is away")

    for operation in ("queues", "pause", "resume"):
        monkeypatch.setattr(Broker, operation, away)
    for do, word in (("pause", "paused"), ("resume", "resumed")):
        message = notice(operator, operator.post("/queues/echo/pause/", {"do": do, "reason": "disk full"}))
        assert message.startswith(f"Stored as {word}. Redis does not answer")
        assert OperatorAction.objects.latest("id").after["engines_notified"] is False


def test_an_invalid_query_string_says_why(viewer: Client, steps: Steps) -> None:
    make.single("echo")
    steps.poll()
    for query in (
        "lane=fast",
        "order=size",
        "after=1",
        "waiting=1-0",
        "waiting=fast.1-0",
        f"waiting=fast.1.{0:032}",
        "start=-1",
        "task=1",
        "lane=A%00:high",
    ):
        page = viewer.get(f"/queues/echo/?{query}")
        assert (page.status_code, b'role="alert"' in page.content) == (400, True), query


def test_a_queue_that_does_not_exist_is_a_404(viewer: Client, broker: Broker) -> None:
    assert viewer.get("/queues/nosuch/").status_code == 404
    assert viewer.get("/queues/NoSuch/").status_code == 404
    assert viewer.get("/queues/")["Location"] == "/"


def waiting_rows(page: str) -> list[str]:
    table = re.search(r'<tbody id="waiting">.*?</tbody>', page, re.DOTALL).group()
    return re.findall(r'<tr id="waiting-.*?</tr>', table)


def test_waiting_tasks_are_paged_from_the_windows_into_postgres(
    viewer: Client, broker: Broker, steps: Steps, settings: Settings
) -> None:
    settings.DALSTON_WINDOW = 12
    wanted = [make.single("echo") for _ in range(35)] + [make.single("echo", priority="high") for _ in range(15)]
    make.single("sleep")
    steps.poll()
    for lane, count, in_window in (("", 50, 24), ("lane=medium", 35, 12)):
        found: list[str] = []
        windows = 0
        path = f"/queues/echo/?{lane}"
        while path:
            page = viewer.get(path).content.decode()
            rows = waiting_rows(page)
            assert len(rows) <= 20
            found += re.findall(r'title="([0-9a-f-]{36})"', " ".join(rows))
            windows += sum(">window</span>" in row for row in rows)
            further = re.search(r'id="waiting-further" rel="next" href="([^"]+)"', page)
            path = f"/queues/echo/{unescape(further.group(1))}" if further else ""
        assert (len(found), len(set(found)), windows) == (count, count, in_window)
        ready = Task.objects.filter(queue="echo", status="ready").order_by("first_enqueued_at", "id")
        assert found[in_window:] == [
            str(task) for priority in ("high", "medium") if priority == "medium" or not lane
            for task in ready.filter(effective_priority=priority).values_list("id", flat=True)
        ]  # fmt: skip
    assert "26 in Postgres, 24 in the window" in page, "of the whole queue, whatever part is shown"
    assert {str(task.id) for task in wanted[:35]} == set(found)


def test_a_waiting_task_shows_its_group_if_several_wait(viewer: Client, steps: Steps, settings: Settings) -> None:
    settings.DALSTON_WINDOW = 1
    for _ in range(3):
        make.single("echo")
    steps.poll()
    assert "project" not in " ".join(waiting_rows(viewer.get("/queues/echo/").content.decode()))
    submit(single_task("echo", concurrency_key="customer 42"), project=Project.objects.create(name="beta"))
    steps.poll()
    rows = waiting_rows(viewer.get("/queues/echo/").content.decode())
    assert [(">tests<" in row, ">beta · customer 42<" in row) for row in rows] == [(True, False)] * 3 + [(False, True)]


def test_a_task_that_waits_in_postgres_can_be_cancelled_and_dead_lettered(
    operator: Client, steps: Steps, settings: Settings
) -> None:
    settings.DALSTON_WINDOW = 1
    for _ in range(3):
        make.single("echo")
    steps.poll()
    tasks = list(Task.objects.filter(status="ready"))
    for task, action, outcome, status in zip(
        tasks,
        ("cancel", "dead-letter"),
        ("Cancelled before it ran.", "Dead-lettered."),
        ("cancelled", "dead_letter"),
        strict=True,
    ):
        page = operator.get(f"/queues/echo/?task={task.id}").content.decode()
        assert 'id="target" class="pad" data-state="waiting"' in page
        answer = operator.post(f"/tasks/{task.id}/actions/{action}/", {"reason": "broken", "attempt": task.attempt})
        assert notice(operator, answer) == outcome
        task.refresh_from_db()
        assert task.status == status
    assert len(waiting_rows(operator.get("/queues/echo/").content.decode())) == 1


def test_without_postgres_the_windows_are_shown_and_the_page_says_what_is_missing(
    viewer: Client, broker: Broker, steps: Steps
) -> None:
    make.single("echo")
    steps.poll()
    with transaction.atomic(), connection.cursor() as cursor:
        # The pages' other queries go on: only what reads the depth fails until this is rolled back.
        cursor.execute("ALTER TABLE dalston_depth RENAME TO away")
        view = read_queue("echo", QueueQuery())
        transaction.set_rollback(True)
    assert [line.in_window for line in view.waiting.lines] == [True]
    assert not view.waiting.ready_known
    assert view.parts == "1 in the window; what waits in Postgres is not known"
    html = {fragment.id: fragment.html for fragment in fragments_of(view, QueueQuery(), {}, False)}
    assert "What waits in Postgres is not known: Postgres does not answer." in html["waiting-pages"]


def test_pages_of_running_tasks_follow_each_other_without_a_gap(
    viewer: Client, broker: Broker, steps: Steps, settings: Settings
) -> None:
    settings.DALSTON_WINDOW = 100
    for _ in range(60):
        make.single("echo")
    steps.poll()
    with engine(broker, capacity=60) as consumer:
        consumer.claim()
        steps.drain()
        pages = [viewer.get(path).content.decode() for path in ("/queues/echo/", "/queues/echo/?start=50")]
        shown = [set(re.findall(r'<tr id="running-([^"]+)"', page)) for page in pages]
        assert [len(rows) for rows in shown] == [50, 10]
        assert not shown[0] & shown[1]
        assert "51–60 of 60 running" in pages[1]
        lane = viewer.get("/queues/echo/?lane=medium").content.decode()
        further = re.search(r'id="running-further" rel="next" href="\?lane=medium&amp;after=([^"]+)"', lane).group(1)
        rest = viewer.get(f"/queues/echo/?lane=medium&after={further}").content.decode()
        assert len(set(re.findall(r'<tr id="running-([^"]+)"', rest))) == 10
        mine = viewer.get(f"/queues/echo/?owner={consumer.engine_id}").content.decode()
        assert "60 running" in mine
        assert b"No running task matches" in viewer.get("/queues/echo/?owner=no-such-engine").content


def test_running_tasks_without_a_deadline_are_counted_and_linked(viewer: Client, broker: Broker) -> None:
    broker.append([TaskMessage(task_id="t1", job_id="j1", queue="echo", task_type="echo", attempt=1)])
    with engine(broker) as consumer:
        consumer.claim()
        page = viewer.get("/queues/echo/").content.decode()
        assert 'id="running-undated" href="?order=idle">1 more without a deadline' in page
        assert 'id="running-t1"' in viewer.get("/queues/echo/?order=idle").content.decode()

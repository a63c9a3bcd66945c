"""The page of a stream: what engines hold, who is next, and what an operator may do to one task."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dalston_queue.accounts.roles import Role, give_role
from dalston_queue.broker import Broker, Consumer, Delivery
from dalston_queue.broker.errors import Unavailable
from dalston_queue.dashboard.overview import read as latest_module
from dalston_queue.dashboard.overview.read import Latest
from dalston_queue.models import OperatorAction, StagePause, Task
from tests.jobs import make
from tests.orchestrator.support import Steps, engine

pytestmark = [pytest.mark.django_db, pytest.mark.keeps_keys]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look reads anew: half a second of an older test's overview would be shown otherwise."""
    monkeypatch.setattr(latest_module.latest, "fresh_s", -1.0)
    monkeypatch.setattr(latest_module.latest, "_past", Latest()._past)


@pytest.fixture
def steps(broker: Broker) -> Steps:
    return Steps(broker)


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(User.objects.create_user("vera"))
    return client


def logged_in(name: str, role: Role = Role.OPERATOR) -> Client:
    user = User.objects.create_user(name)
    give_role(user, role)
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def operator(db: None) -> Client:
    return logged_in("olga")


@pytest.fixture
def running(broker: Broker, steps: Steps) -> Iterator[tuple[Task, Delivery, Consumer]]:
    task = make.single("echo", timeout_seconds=600)
    steps.poll()
    with engine(broker, name="gpu-01.demo.0.boot") as consumer:
        [claimed] = consumer.claim()
        steps.drain()
        yield task, claimed, consumer


def said(client: Client, answer: object) -> str:
    """The message on the page that an act leads to."""
    page = client.get(answer["Location"]).content.decode()
    found = re.search(r'<p class="notice[^>]*>([^<]*)</p>', page)
    return found.group(1) if found else ""


def act(client: Client, task: Task, name: str, **form: object) -> str:
    return said(client, client.post(f"/tasks/{task.id}/act/{name}/", {"reason": "it hangs", **form}))


def test_what_is_held_and_who_is_next(viewer: Client, running: tuple[Task, Delivery, Consumer], steps: Steps) -> None:
    task, _, consumer = running
    consumer.beat({str(task.id): {"fraction": 0.4, "message": "minute 3 of 8"}})
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
    line = re.search(r'<tbody id="waiting">.*?</tbody>', page, re.DOTALL).group()
    assert str(waits.id) in line
    assert ">high<" in line
    assert "1–1 of 1 running" in page
    assert "1 waiting, and no ready engine serves it." in page


def test_a_viewer_sees_no_button_and_is_refused(viewer: Client, running: tuple[Task, Delivery, Consumer]) -> None:
    task, _, _ = running
    page = viewer.get(f"/queues/echo/?task={task.id}").content.decode()
    assert "Actions…" not in page
    assert "Requeue" not in page
    assert "Pause queue" not in page
    for path in (f"/tasks/{task.id}/act/cancel/", "/queues/echo/pause/"):
        assert viewer.post(path, {"reason": "x", "do": "pause"}).status_code == 403
    assert not OperatorAction.objects.exists()


def test_the_operator_gets_the_form_with_what_was_seen(
    operator: Client, running: tuple[Task, Delivery, Consumer]
) -> None:
    task, claimed, _ = running
    page = operator.get(f"/queues/echo/?owner=gpu-01.demo.0.boot&task={task.id}").content.decode()
    assert f'name="entry" value="{claimed.entry_id}"' in page
    assert f'<tr id="running-{task.id}">' in page
    assert f"?owner=gpu-01.demo.0.boot&amp;task={task.id}#act" in page, "the filter stays"


def test_requeue_counts_once_and_the_second_is_told(
    operator: Client, running: tuple[Task, Delivery, Consumer], steps: Steps, broker: Broker
) -> None:
    task, claimed, _ = running
    other = logged_in("omar")
    assert act(operator, task, "requeue", entry=claimed.entry_id).startswith("Handed back")
    assert "Somebody else was faster" in act(other, task, "requeue", entry=claimed.entry_id)
    with engine(broker, name="gpu-02.demo.0.boot") as second:
        second.claim()
        assert "another engine has it by now" in act(operator, task, "requeue", entry=claimed.entry_id)
        steps.drain()
    rows = OperatorAction.objects.filter(action="task.requeue").order_by("id")
    assert [row.actor for row in rows] == ["user olga", "user omar", "user olga"]
    task.refresh_from_db()
    assert task.deliveries == task.retry_count == 0


def test_a_dead_letter_and_a_cancel_say_what_became_of_them(
    operator: Client, running: tuple[Task, Delivery, Consumer], steps: Steps
) -> None:
    task, _, _ = running
    assert act(operator, task, "dead-letter", attempt="1").startswith("Taken from its engine")
    steps.drain()
    task.refresh_from_db()
    assert (task.status, task.error) == (
        "dead_letter",
        "dead-lettered by user olga: it hangs (it was rejected, so another attempt would end the same way)",
    )
    assert "dead letter already" in act(operator, task, "cancel")
    assert "dead letter already" in act(operator, task, "dead-letter", attempt="1")
    waits = make.single("echo")
    steps.poll()
    assert act(operator, waits, "cancel").startswith("Cancel")
    steps.drain()


def test_the_pages_of_the_task_and_its_job_lead_to_the_same_buttons(
    operator: Client, viewer: Client, running: tuple[Task, Delivery, Consumer], steps: Steps
) -> None:
    task, claimed, _ = running
    here = f"/tasks/{task.id}/"
    for client, buttons in ((operator, True), (viewer, False)):
        assert ('href="?act=1#act"' in client.get(here).content.decode()) is buttons
        assert (f"{here}?act=1#act" in client.get(f"/jobs/{task.job_id}/").content.decode()) is buttons
        assert ("Requeue" in client.get(f"{here}?act=1").content.decode()) is buttons
    page = operator.get(f"{here}?act=1").content.decode()
    form = dict(re.findall(r'<input type="hidden" name="(next|entry|attempt)" value="([^"]*)"', page))
    assert form == {"next": here, "entry": claimed.entry_id, "attempt": "1"}
    assert act(operator, task, "requeue", **form).startswith("Handed back")
    assert act(operator, task, "dead-letter", **form).startswith("Set aside")
    steps.drain()
    for path in (here, f"/jobs/{task.job_id}/"):
        assert "Actions…" not in operator.get(path).content.decode(), "it is over"
    assert "It is not queued any more: it is dead letter." in operator.get(f"{here}?act=1").content.decode()


def test_without_a_reason_nothing_happens(operator: Client, running: tuple[Task, Delivery, Consumer]) -> None:
    task, _, _ = running
    assert act(operator, task, "cancel", reason="  ") == "Nothing was changed: a reason is needed."
    assert not OperatorAction.objects.exists()
    assert operator.post(f"/tasks/{task.id}/act/explode/", {"reason": "x"}).status_code == 404


def test_an_act_does_not_lead_away_from_here(operator: Client, running: tuple[Task, Delivery, Consumer]) -> None:
    task, _, _ = running
    for elsewhere in ("https://evil.example/", "//evil.example/", "abc", "dashboard:overview"):
        form = {"reason": "", "next": elsewhere}
        assert operator.post(f"/tasks/{task.id}/act/cancel/", form)["Location"] == "/queues/echo/"


def test_pause_needs_a_reason_and_two_who_press_it_are_told_apart(operator: Client, steps: Steps) -> None:
    make.single("echo")
    steps.poll()
    brake = "/queues/echo/pause/"
    assert said(operator, operator.post(brake, {"do": "pause"})).startswith("Nothing was changed")
    assert said(operator, operator.post(brake, {"do": "pause", "reason": "disk full"})).startswith("Paused")
    assert said(operator, operator.post(brake, {"do": "pause", "reason": "disk full"})).startswith(
        "It was paused already"
    )
    page = operator.get("/queues/echo/").content.decode()
    assert "Paused by user olga" in page
    assert "disk full" in page
    assert said(operator, operator.post(brake, {"do": "resume"})).startswith("Resumed")
    assert not StagePause.objects.exists()
    assert OperatorAction.objects.filter(action__startswith="stage.").count() == 3


def test_a_stream_that_does_not_exist_has_no_brake(operator: Client, broker: Broker) -> None:
    for do in ("pause", "resume"):
        assert operator.post("/queues/ecoh/pause/", {"do": do, "reason": "disk full"}).status_code == 404
    assert not StagePause.objects.exists() and not OperatorAction.objects.exists()


def test_a_pause_that_engines_do_not_hear_of_says_so(
    operator: Client, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise Unavailable("Redis is away")

    for asked in ("queues", "pause", "resume"):
        monkeypatch.setattr(Broker, asked, away)
    for do, word in (("pause", "paused"), ("resume", "resumed")):
        told = said(operator, operator.post("/queues/echo/pause/", {"do": do, "reason": "disk full"}))
        assert told.startswith(f"Stored as {word}. Redis does not answer")
        assert OperatorAction.objects.latest("id").after["engines_notified"] is False


def test_an_address_that_makes_no_sense_says_so(viewer: Client, steps: Steps) -> None:
    make.single("echo")
    steps.poll()
    for query in ("lane=fast", "order=size", "after=1", "start=-1", "task=1", "lane=A%00:high"):
        page = viewer.get(f"/queues/echo/?{query}")
        assert (page.status_code, b'role="alert"' in page.content) == (400, True), query


def test_a_stream_that_does_not_exist(viewer: Client, broker: Broker) -> None:
    assert viewer.get("/queues/nosuch/").status_code == 404
    assert viewer.get("/queues/NoSuch/").status_code == 404
    assert viewer.get("/queues/")["Location"] == "/"


def test_pages_of_what_is_held_fit_together(viewer: Client, broker: Broker, steps: Steps) -> None:
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
        assert b"No running task matches" in viewer.get("/queues/echo/?owner=nobody").content

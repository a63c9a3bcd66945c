"""A queue's page: its rows follow the tasks, and of two operators who press one button one wins."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from pytest_django import Settings

from dalston_queue.broker import Consumer, Delivery
from dalston_queue.broker.protocol.messages import Completed
from dalston_queue.broker.protocol.types import Cause
from dalston_queue.models import OperatorAction, StagePause, Task
from dalston_queue.redis import get_broker
from tests.broker.conftest import BUDGETS
from tests.browser.conftest import Axe, OpenPage
from tests.browser.pages import live, mark, still_same
from tests.jobs import make
from tests.orchestrator.support import Steps, engine
from tests.supervisor.node import QUEUE, Node
from tests.support import Spawned
from tests.web import Web

pytestmark = pytest.mark.django_db(transaction=True)

ONE, TWO = "gpu-01.demo.0.boot", "gpu-02.demo.0.boot"


@pytest.fixture
def steps(live_web: Web) -> Steps:
    return Steps(get_broker())


@pytest.fixture
def running(steps: Steps) -> Iterator[tuple[Task, Consumer, Delivery]]:
    """A task that an engine runs."""
    task = make.single("echo", timeout_seconds=600)
    steps.poll()
    with engine(get_broker(), name=ONE) as consumer:
        [claimed] = consumer.claim()
        steps.drain()
        yield task, consumer, claimed


def test_the_row_of_a_lost_engine_moves_to_the_next_without_a_reload(
    page: Page, steps: Steps, running: tuple[Task, Consumer, Delivery]
) -> None:
    task, _, _ = running
    page.goto("/queues/echo/")
    live(page)
    mark(page)
    row = page.locator(f"#running-{task.id}")
    expect(row).to_contain_text(ONE)
    get_broker().reclaim(ONE, ["echo"], Cause.ENGINE_LOST, **BUDGETS)
    expect(page.locator("#waiting")).to_contain_text(str(task.id)[-8:])
    expect(row).to_have_count(0)
    with engine(get_broker(), name=TWO) as second:
        second.claim()
        expect(row).to_contain_text(TWO)
        expect(row.locator("td.wide").first).to_have_text("1")  # one engine died with it
        second.renew_all({str(task.id): {"fraction": 0.6, "message": "minute 5"}})
        expect(row.locator("progress")).to_have_attribute("value", "60")
    steps.drain()
    assert still_same(page)


def test_two_operators_press_and_one_wins(
    open_page: OpenPage, steps: Steps, running: tuple[Task, Consumer, Delivery], axe: Axe
) -> None:
    task, _, _ = running
    first, second = open_page("operator"), open_page("admin")
    for page in (first, second):
        page.goto("/queues/echo/")
        live(page)
        page.locator(f"#running-{task.id}").get_by_role("link", name="Actions for").click()
        expect(page.locator("#target")).to_contain_text(ONE)
    axe(first)
    first.get_by_role("button", name="Requeue").click()
    assert first.locator("#action-reason:invalid").count() == 1, "a reason is needed"
    for page in (first, second):
        page.get_by_label("Reason").locator("visible=true").fill("it hangs")
    first.get_by_role("button", name="Requeue").click()
    # Pressed at the same moment: a second later the page has updated itself and the button is gone.
    second.evaluate(
        "() => { const b = document.querySelector('#actions [formaction$=\"requeue/\"]'); b.form.requestSubmit(b); }"
    )
    expect(first.locator(".notice")).to_contain_text("Requeued: it is first in its queue")
    expect(second.locator(".notice")).to_contain_text("Another operator was faster")
    steps.drain()
    assert [row.after["outcome"] for row in OperatorAction.objects.order_by("id")] == ["returned", "waiting"]


def test_the_buttons_of_a_task_that_ends_disappear_from_the_open_page(
    page: Page, steps: Steps, running: tuple[Task, Consumer, Delivery]
) -> None:
    task, _, claimed = running
    page.goto(f"/queues/echo/?task={task.id}#actions")
    live(page)
    expect(page.get_by_role("button", name="Dead-letter")).to_be_visible()
    page.locator("#action-reason").fill("half a senten")
    claimed.settle(Completed({"done": True}))
    steps.drain()
    expect(page.locator("#target")).to_contain_text("It is not queued any more: it is completed.")
    expect(page.get_by_role("button", name="Dead-letter")).to_be_hidden()


def test_a_queue_is_paused_with_a_reason_and_resumed(page: Page, steps: Steps) -> None:
    make.single("echo")
    steps.poll()
    page.goto("/queues/echo/")
    live(page)
    page.get_by_text("Pause queue").click()
    page.locator("#pause-reason").fill("the disk is full")
    page.get_by_role("button", name="Pause", exact=True).click()
    live(page)
    expect(page.locator("#queue")).to_contain_text("the disk is full")
    expect(page.get_by_text("Pause queue")).to_be_hidden()
    page.get_by_role("button", name="Resume queue").click()
    expect(page.locator(".notice")).to_contain_text("Resumed")
    assert not StagePause.objects.exists()


def test_a_viewer_has_no_buttons_live_or_not(
    viewer_page: Page, steps: Steps, running: tuple[Task, Consumer, Delivery]
) -> None:
    task, _, _ = running
    viewer_page.goto(f"/queues/echo/?task={task.id}")
    live(viewer_page)
    expect(viewer_page.locator(f"#running-{task.id}")).to_be_visible()
    late = make.single("echo")
    steps.poll()
    expect(viewer_page.locator("#waiting")).to_contain_text(str(late.id)[-8:])
    assert viewer_page.get_by_text("Actions…").count() == 0, "nor in what the socket sent"
    assert viewer_page.get_by_role("button", name="Cancel").count() == 0


def test_what_waits_in_postgres_is_listed_behind_the_window_and_moves_into_it(
    page: Page, steps: Steps, settings: Settings, axe: Axe
) -> None:
    settings.DALSTON_WINDOW = 2
    tasks = [make.single("echo") for _ in range(25)]
    steps.poll()
    page.goto("/queues/echo/")
    live(page)
    mark(page)
    expect(page.locator("#waiting-parts")).to_contain_text("23 in Postgres, 2 in the window")
    third = page.locator("#waiting tr", has_text=str(tasks[2].id)[-8:])
    expect(third.locator(".a-place")).to_have_text("Postgres")
    axe(page)
    with engine(get_broker(), capacity=2) as consumer:
        consumer.claim()
        steps.drain()
        expect(third.locator(".a-place")).to_have_text("window")
        expect(page.locator("#waiting-parts")).to_contain_text("15 in Postgres, 8 in the window")
        assert still_same(page)
        page.get_by_role("navigation", name="Pages of waiting tasks").get_by_role("link", name="Next").click()
        live(page)
        expect(page.locator("#waiting tr")).to_have_count(3)
        page.locator("#waiting tr").last.get_by_role("link", name="Actions for").click()
        live(page)
        expect(page.locator("#target")).to_contain_text("attempt 1, waiting")
        page.locator("#action-reason").fill("the file is gone")
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator(".notice")).to_contain_text("Cancelled before it ran.")
        expect(page.locator("#waiting tr")).to_have_count(2)
    assert Task.objects.get(id=tasks[-1].id).status == "cancelled"


def test_the_keyboard_moves_through_the_rows_and_keeps_its_position(
    page: Page, steps: Steps, running: tuple[Task, Consumer, Delivery]
) -> None:
    task, _, claimed = running
    page.goto("/queues/echo/")
    live(page)
    page.keyboard.press("j")
    expect(page.locator(f"#running-{task.id}-link")).to_be_focused()
    second = make.single("echo")
    third = make.single("echo")
    steps.poll()
    expect(page.locator("#waiting tr[id]")).to_have_count(2)
    expect(page.locator(f"#running-{task.id}-link")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator("#waiting tr").first.locator("th a")).to_be_focused()
    page.keyboard.press("k")
    claimed.settle(Completed())
    expect(page.locator(f"#running-{task.id}")).to_have_count(0)
    page.keyboard.press("j")
    expect(page.locator("#waiting tr").first.locator("th a")).to_be_focused()
    page.keyboard.press("/")
    expect(page.locator("input[name=owner]")).to_be_focused()
    page.keyboard.type("?j")
    expect(page.locator("input[name=owner]")).to_have_value("?j")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/*/")
    assert str(second.job_id) in page.url or str(third.job_id) in page.url
    steps.drain()


@pytest.fixture
def node(live_web: Web, spawn: Callable[..., Spawned], tmp_path: Path) -> Iterator[Node]:
    node = Node(get_broker(), spawn, {**live_web.env, "DALSTON_HEARTBEAT_S": "0.2"}, tmp_path, "node-a")
    node.engine("fix", replicas=2)
    node.start()
    node.ready(2)
    yield node
    node.clean()


def test_an_engine_is_killed_and_its_row_moves_to_the_other(node: Node, page: Page) -> None:
    """End to end: a real process dies, its supervisor notices, and the page follows."""
    task = node.submit("slow", seconds=60, timeout_ms=600_000)
    node.started(task)
    page.goto(f"/queues/{QUEUE}/")
    live(page)
    mark(page)
    owner = page.locator(f"#running-{task} .a-owner")
    first = owner.inner_text()
    os.kill(node.pid_of(first), signal.SIGKILL)
    expect(owner).not_to_have_text(first)
    assert still_same(page)

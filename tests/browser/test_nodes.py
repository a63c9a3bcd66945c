"""A node's page: drained by a click, its commands shown until their end, its log followed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from dalston_queue.broker.engine.remote import RemoteWorker
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.types import EngineState, NodeState
from dalston_queue.models import OperatorAction
from dalston_queue.redis import get_broker
from tests.browser.conftest import Axe
from tests.browser.pages import live, mark, still_same
from tests.supervisor.node import Node
from tests.support import Spawned, wait_until
from tests.web import Web

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def node(live_web: Web, spawn: Callable[..., Spawned], redis_url: str, tmp_path: Path) -> Iterator[Node]:
    """A real supervisor with two engine processes, seen by the web process."""
    node = Node(get_broker(), spawn, {**live_web.env, "DALSTON_HEARTBEAT_S": "0.2"}, tmp_path, "node-a")
    node.engine("fix", replicas=2)
    node.start()
    node.ready(2)
    yield node
    node.clean()


def test_a_node_is_drained_and_resumed_by_clicks(node: Node, page: Page, axe: Axe) -> None:
    page.goto("/nodes/")
    page.get_by_role("link", name="node-a").click()
    live(page)
    running = node.submit("slow", seconds=60)
    node.started(running)
    expect(page.locator("#engines .running-task")).to_contain_text(running[-8:])
    axe(page)
    page.get_by_text("Drain…").click()
    page.get_by_role("button", name="Drain node-a").click()
    assert page.locator("#drain-reason:invalid").count() == 1, "a drain needs its reason"
    page.get_by_label("Reason", exact=True).locator("visible=true").fill("new driver")
    page.get_by_role("button", name="Drain node-a").click()
    live(page)
    mark(page)
    expect(page.locator("#node .chip")).to_have_text("draining")
    expect(page.locator("#commands .chip").first).to_have_text("done")
    expect(page.locator("#drain")).to_contain_text("nothing runs here any more")
    expect(page.get_by_text("Drain…")).to_be_hidden()
    assert still_same(page)
    page.get_by_role("button", name="Resume").click()
    live(page)
    expect(page.locator("#node .chip")).to_have_text("active")
    node.wait_state(EngineState.READY, 2)
    expect(page.locator("#engines .chip.ok")).to_have_count(2)
    expect(page.locator("#exits tr[id]")).to_have_count(2)
    actions = [(row.action, row.reason) for row in OperatorAction.objects.order_by("id")]
    assert actions == [("node.drain", "new driver"), ("node.resume", "")]


def test_a_worker_over_http_is_drained_and_resumed_by_clicks(live_web: Web, page: Page, axe: Axe) -> None:
    broker, worker_id = get_broker(), "http.box.0123456789abcdef"
    RemoteWorker.register(broker, EngineBeat(engine_id=worker_id, state=EngineState.READY, queues=("echo",)))
    page.goto("/nodes/http/")
    live(page)
    page.get_by_role("link", name="Drain box.0123456789abcdef").click()
    live(page)
    axe(page)
    page.get_by_role("button", name="Drain").click()
    assert page.locator("#worker-reason:invalid").count() == 1, "a drain needs its reason"
    page.get_by_label("Reason").fill("new disk")
    page.get_by_role("button", name="Drain").click()
    live(page)
    expect(page.locator("#engines .chip")).to_have_text("draining")
    page.get_by_role("link", name="Resume box.0123456789abcdef").click()
    live(page)
    mark(page)
    expect(page.get_by_role("button", name="Drain")).to_be_hidden()
    broker.registry.forget([worker_id])
    expect(page.get_by_role("button", name="Resume")).to_be_hidden()
    expect(page.locator("#worker")).to_contain_text("has left")
    assert still_same(page), "the buttons follow the worker's state"
    RemoteWorker.register(broker, EngineBeat(engine_id=worker_id, state=EngineState.READY, queues=("echo",)))
    expect(page.get_by_role("button", name="Drain")).to_be_visible()
    assert [(row.action, row.reason) for row in OperatorAction.objects.all()] == [("worker.drain", "new disk")]


def log_a_line(node: Node, slot: str, text: str) -> None:
    """Until this engine got one of the tasks that log it: any engine of the queue may claim them."""

    def claimed() -> bool:
        event = node.started(node.submit("say", text=text))
        return event.engine_id.startswith(f"{node.name}.{slot}.")

    wait_until(claimed, what=f"a task that {slot} runs")


def test_a_log_is_followed_live_and_stands_still_while_paused(node: Node, page: Page) -> None:
    page.goto("/nodes/node-a/")
    live(page)
    pane = page.locator('[id="log-fix.0"]')
    pane.locator("summary").click()
    expect(pane.locator("[data-status]")).to_have_text("following")
    log_a_line(node, "fix.0", "<b>first</b>")
    expect(pane.locator("pre")).to_contain_text("<b>first</b>")
    pane.get_by_role("button", name="Pause").click()
    expect(pane.locator("[data-status]")).to_have_text("paused, 0 new lines")
    log_a_line(node, "fix.0", "second")
    expect(pane.locator("[data-status]")).to_have_text(re.compile(r"paused, [1-9]\d* new lines"))
    expect(pane.locator("pre")).not_to_contain_text("second")
    pane.get_by_role("button", name="Resume").click()
    expect(pane.locator("pre")).to_contain_text("second")
    assert pane.locator("pre b").count() == 0


def test_a_viewer_sees_the_node_but_no_buttons_and_is_refused(live_web: Web, viewer_page: Page) -> None:
    get_broker().registry.beat_node("node-a", NodeState.ACTIVE, [])
    viewer_page.goto("/nodes/node-a/")
    live(viewer_page)
    expect(viewer_page.get_by_text("Drain…")).to_have_count(0)
    cookie = {each["name"]: each["value"] for each in viewer_page.context.cookies()}
    answer = viewer_page.request.post(
        "/nodes/node-a/command/",
        form={"command": "drain", "reason": "x", "command_id": "one", "csrfmiddlewaretoken": cookie["csrftoken"]},
        headers={"Referer": viewer_page.url},
    )
    assert answer.status == 403
    assert get_broker().node("node-a").recent() == []

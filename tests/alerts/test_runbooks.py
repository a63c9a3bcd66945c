"""Each runbook leads from its alert to pages that exist, and the buttons that it names are on them."""

import html
import re

import pytest
from django.test import Client
from django.utils import timezone

from dalston_queue.accounts.roles import Role
from dalston_queue.alerts.page import PAGES
from dalston_queue.alerts.runbooks import RUNBOOKS
from dalston_queue.alerts.table import ALERTS, Alert
from dalston_queue.broker import Broker
from dalston_queue.models import AlertState
from tests.browser.world import make_world
from tests.dashboard.people import logged_in

pytestmark = [pytest.mark.keeps_keys, pytest.mark.usefixtures("broker")]


def labels(client: Client, url: str) -> set[str]:
    """What can be pressed there: buttons, summaries and links."""
    answer = client.get(url, follow=True)
    assert answer.status_code == 200, (url, answer.status_code)
    return labels_of(answer.content.decode())


def labels_of(page: str) -> set[str]:
    found = re.findall(r"<(button|summary|a)\b[^>]*>(.*?)</\1>", page, re.DOTALL)
    return {html.unescape(re.sub(r"<[^>]+>", "", text)).strip() for _, text in found}


@pytest.mark.django_db(transaction=True)
def test_each_button_is_on_the_page_that_its_step_names(broker: Broker) -> None:
    world = make_world(broker)
    client = logged_in("olga", Role.OPERATOR)
    urls = {
        "overview": "/",
        "queues": "/queues/",
        "queue": "/queues/transcribe/",
        "task": f"/tasks/{world.task_id}/?actions=1",
        "nodes": "/nodes/",
        "node": "/nodes/gpu-01/",
        "dead-letters": "/dead-letters/",
        "dead-letters-list": "/dead-letters/?each=1",
        "limits": "/limits/",
    }
    assert urls.keys() == PAGES.keys()
    there = {page: labels(client, url) for page, url in urls.items()}
    steps = {step for runbook in RUNBOOKS.values() for step in (*runbook.look, *runbook.press)}
    for step in steps:
        if step.page:
            assert step.page in urls, step
        if step.button:
            pressed = there[step.page]
            assert any(label == step.button or label.startswith(f"{step.button} ") for label in pressed), (
                step,
                pressed,
            )


@pytest.mark.django_db(transaction=True)
def test_who_follows_a_runbook_from_its_alert_finds_each_heading_and_each_button(broker: Broker) -> None:
    make_world(broker)
    client = logged_in("olga", Role.OPERATOR)
    pages: dict[str, str] = {}

    def page(url: str) -> str:
        if url not in pages:
            pages[url] = client.get(url, follow=True).content.decode()
        return pages[url]

    def finds(url: str, button: str, clicks: int) -> bool:
        """On the page, or on one of a queue, node, job or task that it leads to."""
        if any(label == button or label.startswith(f"{button} ") for label in labels_of(page(url))):
            return True
        ways = sorted(set(re.findall(r'href="(/(?:queues|nodes|jobs|tasks)/[^/"?#]+/[^"#]*)', page(url))))
        return clicks > 0 and any(finds(way, button, clicks - 1) for way in ways)

    for alert in ALERTS:
        steps = re.findall(r"<li>(.*?)</li>", page(f"/alerts/{alert.slug}/").partition("What to check")[2], re.DOTALL)
        runbook = RUNBOOKS[alert.name]
        for step, shown in zip((*runbook.look, *runbook.press), steps, strict=False):
            link = re.search(r'<a href="([^"]+)"', shown)
            assert bool(link) == bool(step.page), (alert.name, shown)
            if link and step.shows:
                assert re.search(rf"<(h2|h3|th)\b[^>]*>{step.shows}\b", page(link[1])), (alert.name, step)
            if link and step.button:
                clicks = 2 if step.page in ("queue", "node", "task") else 0
                assert finds(link[1], step.button, clicks), (alert.name, step)


def test_each_alert_has_a_runbook_with_all_three_parts() -> None:
    assert RUNBOOKS.keys() == {alert.name for alert in ALERTS}
    for runbook in RUNBOOKS.values():
        assert runbook.means and runbook.look and runbook.press
        assert any(step.button or "`" in step.text for step in runbook.press), "nothing to press, and no command"


def _link(text: str, label: str) -> str:
    found = re.search(rf'<a href="([^"]*)">{label}</a>', text)
    assert found, label
    return found[1]


@pytest.mark.django_db
@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_each_alert_has_a_page_whose_links_lead_somewhere(viewer: Client, alert: Alert) -> None:
    text = viewer.get(f"/alerts/{alert.slug}/").content.decode()
    assert html.escape(RUNBOOKS[alert.name].means, quote=False).replace("'", "&#x27;") in text
    for step in (*RUNBOOKS[alert.name].look, *RUNBOOKS[alert.name].press):
        assert step.button == "" or f"<b>{step.button}</b>" in text
    runbook = text.partition("What to check")[2].partition("</section>")[0]
    for url in set(re.findall(r'<a href="([^"]+)"', runbook)):
        assert viewer.get(url, follow=True).status_code == 200, url


@pytest.mark.django_db
def test_a_runbook_of_one_queue_or_node_links_to_it(viewer: Client) -> None:
    now = timezone.now()
    same = {"severity": "warning", "value": 1, "text": "x", "since": now, "held_at": now, "fired_at": now}
    AlertState.objects.create(name="DalstonQueueDeep", subject="echo medium", **same)
    AlertState.objects.create(name="DalstonDiskFilling", subject="gpu-7", **same)
    assert _link(viewer.get("/alerts/queue-deep/").content.decode(), "Queue") == "/queues/echo/"
    assert _link(viewer.get("/alerts/disk-filling/").content.decode(), "Node") == "/nodes/gpu-7/"


@pytest.mark.django_db
def test_an_unknown_alert_is_not_found(viewer: Client) -> None:
    assert viewer.get("/alerts/no-such-thing/").status_code == 404

"""The page of alerts, and the page of each with its runbook: what it means, what to check, what to press."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from dalston_queue.alerts.page import PAGES
from dalston_queue.alerts.runbooks import RUNBOOKS, Step
from dalston_queue.alerts.table import ALERTS, BY_SLUG, Alert
from dalston_queue.dashboard.alerts.read import standing
from dalston_queue.dashboard.alerts.render import alerts_fragments, runbook_fragments
from dalston_queue.dashboard.live.fragments import by_name
from dalston_queue.dashboard.parts.request import page_url
from dalston_queue.dashboard.security.roles import page_view

_LISTS = {
    "queue": "queues",
    "node": "nodes",
    "task": "jobs",
    "dead-letters-list": "dead-letters",
}
"""Pages of one queue, node or task: the list leads to it, if the alert does not name it."""


@dataclass(frozen=True, slots=True)
class ShownStep:
    text: str
    url: str
    label: str
    button: str
    shows: str
    place: str  # the page of one queue, node or task, if the link leads to the list of them


@page_view
def alerts(request: HttpRequest) -> HttpResponse:
    return render(request, "dashboard/alerts/page.html", {**by_name(alerts_fragments()), "alerts": ALERTS})


@page_view
def runbook(request: HttpRequest, slug: str) -> HttpResponse:
    alert = BY_SLUG.get(slug)
    if alert is None:
        raise Http404(f"there is no alert {slug}")
    runbook = RUNBOOKS[alert.name]
    context = {
        **by_name(runbook_fragments(slug)),
        "alert": alert,
        "settings_of": [each for each in (alert.threshold, alert.for_s) if isinstance(each, str)],
        "means": runbook.means,
        "look": [shown(step, alert) for step in runbook.look],
        "press": [shown(step, alert) for step in runbook.press],
    }
    return render(request, "dashboard/alerts/runbook.html", context)


def shown(step: Step, alert: Alert) -> ShownStep:
    """With the page of the queue or node that the alert is about, if it stands for one only."""
    page = _LISTS.get(step.page, step.page)
    url = page_url(page) if page else ""
    subjects = {line.subject.split()[0] for line in standing(alert.name) if line.subject}
    of_one = {"queue": "stage", "node": "node"}.get(step.page)
    if of_one and of_one in alert.labels and len(subjects) == 1:
        page = "queue" if of_one == "stage" else "node"
        url = page_url(page, *subjects) or url
    if step.page == "dead-letters-list":
        url += "?each=1"
    label = page.replace("-", " ").capitalize() if page else ""
    place = PAGES[step.page] if step.page not in (page, "dead-letters-list") else ""
    return ShownStep(step.text, url, label, step.button, step.shows, place)

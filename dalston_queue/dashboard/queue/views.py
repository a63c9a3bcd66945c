"""The page of one queue; pause and resume."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone

from dalston_queue.accounts.roles import may_operate, person
from dalston_queue.audit.record import audited
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.protocol.types import Tier
from dalston_queue.broker.views.pages import LaneTier
from dalston_queue.dashboard.live.fragments import by_name
from dalston_queue.dashboard.overview.read import latest
from dalston_queue.dashboard.overview.values import Overview
from dalston_queue.dashboard.parts.request import BadQuery, address, known_fields, reason_of
from dalston_queue.dashboard.queue.query import FIELDS, QueueQuery, lane_word, queue_query
from dalston_queue.dashboard.queue.read import QueueView, read_queue
from dalston_queue.dashboard.queue.render import fragments_of
from dalston_queue.dashboard.security.roles import operator_action, page_view
from dalston_queue.jobs.operator.pause import NoSuchQueue, PauseResult, check_queue, pause, resume
from dalston_queue.jobs.queries.queues import page
from dalston_queue.redis import get_broker


@page_view
def queues(request: HttpRequest) -> HttpResponse:
    """Redirects to the queue with the most tasks; with `after`, a page of all queues by name."""
    if "after" in request.GET:
        return _all_queues(request, request.GET["after"])
    redis = latest.get().redis
    queues = redis.snapshot.queues if redis else []
    if not queues:
        messages.info(request, "There is no queue yet: its first task or its first engine creates it.")
        return redirect("dashboard:overview")
    busiest = max(queues, key=lambda stats: stats.waiting + stats.running)
    return redirect("dashboard:queue", queue=busiest.queue)


PAGE = 100


def _all_queues(request: HttpRequest, after: str) -> HttpResponse:
    try:
        in_redis = get_broker().queues()
    except BrokerError:
        in_redis = []
    found = page(in_redis, after.replace("\0", ""), PAGE + 1)
    context = {"lines": found[:PAGE], "more": found[PAGE - 1].queue if len(found) > PAGE else "", "after": after}
    return render(request, "dashboard/queue/all.html", context)


@page_view
def queue_page(request: HttpRequest, queue: str) -> HttpResponse:
    query, problem = known_fields(request.GET, FIELDS), ""
    try:
        wanted = queue_query(query)
    except BadQuery as error:
        wanted, problem = QueueQuery(), str(error)
    view = read_queue(queue, wanted)
    context = {
        **by_name(fragments_of(view, wanted, {} if problem else query, may_operate(request.user))),
        "view": view,
        "query": query,
        "problem": problem,
        "address": address(query),
        "here": address({**query, "task": ""}),
        "lanes": _lanes(view),
        "queues": _queues(latest.get()),
    }
    status = 400 if problem else 404 if view.known and not view.exists else 200
    return render(request, "dashboard/queue/page.html", context, status=status)


@operator_action
def pause_or_resume(request: HttpRequest, queue: str) -> HttpResponse:
    """The form names pause or resume, so sending it twice changes nothing more."""
    wanted, reason = request.POST.get("do", ""), reason_of(request)
    try:
        check_queue(queue, to_resume=wanted == "resume")
    except NoSuchQueue as error:
        raise Http404(str(error)) from None
    if wanted == "pause" and reason:
        with audited("stage.pause", queue, **person(request), reason=reason) as row:
            done = pause(queue, timezone.now(), actor=person(request)["actor"], reason=reason)
            row.after = {"paused": True, "changed": done.changed, "engines_notified": done.reached}
        _show(request, done, "Paused: engines claim no task from it. Running tasks go on.", "paused")
    elif wanted == "resume":
        with audited("stage.resume", queue, **person(request), reason=reason) as row:
            done = resume(queue)
            row.after = {"paused": False, "changed": done.changed, "engines_notified": done.reached}
        _show(request, done, "Resumed: engines claim from it again.", "resumed")
    else:
        messages.error(request, "Nothing was changed: a reason is needed to pause a queue.")
    return redirect("dashboard:queue", queue=queue)


def _show(request: HttpRequest, done: PauseResult, message: str, word: str) -> None:
    if not done.reached:
        messages.warning(request, f"Stored as {word}. Redis does not answer; engines learn of it when it does.")
    elif done.changed:
        messages.success(request, message)
    else:
        messages.warning(request, f"It was {word} already.")


def _lanes(view: QueueView) -> list[tuple[str, str]]:
    """Lanes to filter by: as in the URL, and as the page shows them."""
    found = [lane_word(LaneTier(lane.capabilities, Tier(lane.tier))) for lane in view.lanes]
    return [(lane, lane.replace(":", " ").replace("+", " + ")) for lane in found]


def _queues(overview: Overview) -> list[str]:
    return [] if overview.redis is None else [stats.queue for stats in overview.redis.snapshot.queues]

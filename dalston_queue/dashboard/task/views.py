"""The page of one task, and the log of each of its runs: asked of the node, or why it is not known."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dalston_queue.accounts.roles import may_operate
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.nodes.commands import CommandState
from dalston_queue.dashboard.live.fragments import by_name
from dalston_queue.dashboard.nodes.logs import shown
from dalston_queue.dashboard.parts.black_box import BlackBox, black_box
from dalston_queue.dashboard.task.read import RunLine, read_task, run_lines
from dalston_queue.dashboard.task.render import fragments_of
from dalston_queue.database import release_connection
from dalston_queue.jobs.queries.timeline import Delivery
from dalston_queue.models import DeadLetter
from dalston_queue.redis import get_broker


@require_safe
@never_cache
@login_required
def task(request: HttpRequest, task_id: UUID) -> HttpResponse:
    view = read_task(task_id)
    if view is None:
        raise Http404(f"there is no task {task_id}")
    shown = by_name(fragments_of(view, may_operate(request.user)))
    return render(request, "dashboard/task/page.html", {**shown, "view": view, "acts": "act" in request.GET})


@require_safe
@never_cache
@login_required
def run_log(request: HttpRequest, task_id: UUID, number: int) -> HttpResponse:
    """Asks the node, which takes a moment: the page loads this on its own. Without a script it is a page."""
    lines = run_lines(task_id)
    if not 1 <= number <= len(lines):
        raise Http404(f"task {task_id} has no run {number}")
    line = lines[number - 1]
    log, problem = read_log(line)
    box = None if log else box_of(task_id, line.run)
    template = "_log" if "HX-Request" in request.headers else "log"
    context = {"line": line, "log": log, "problem": problem, "box": box, "task_id": task_id}
    return render(request, f"dashboard/task/{template}.html", context)


LINES = 500
AROUND = timedelta(seconds=1)
"""Logged a moment before the start was recorded, or after the end, and of the run all the same."""


def read_log(line: RunLine) -> tuple[str, str]:
    """Its lines, or why there are none."""
    if not line.node:
        return "", "It ran without a supervisor, so its log is not kept."
    since, until = line.run.started_at or line.run.finished_at, line.run.finished_at
    broker = get_broker()
    try:
        if line.node not in {node.node_id for node in broker.registry.nodes()}:
            return "", f"The node {line.node} is down, and its logs with it."
        release_connection()
        tail = broker.logs(line.node).tail(
            line.run.engine_id,
            lines=LINES,
            since_ms=_ms(since - AROUND) if since else None,
            until_ms=_ms(until + AROUND) if until else None,
            actor="dashboard",
        )
    except BrokerError:
        return "", "Redis does not answer, so the node cannot be asked."
    if tail.complete:
        text = "\n".join(shown(each) for each in tail.lines)
        return text, "" if text else "It wrote nothing while it ran, or its log of that time is gone."
    if tail.status is not None and tail.status.state is CommandState.FAILED:
        return "", f"{line.node} says: {tail.status.message}."
    return "", f"The node {line.node} does not answer."


def box_of(task_id: UUID, run: Delivery) -> BlackBox | None:
    """What the supervisor saw, kept with the dead letter of this attempt: all that is left of a lost node's engine."""
    dead_letters = DeadLetter.objects.filter(task_id=task_id, attempt=run.attempt).order_by("-id")
    return black_box(dead_letters.values_list("evidence", flat=True).first())


def _ms(moment: datetime) -> int:
    return max(0, int(moment.timestamp() * 1000))

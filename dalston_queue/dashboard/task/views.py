"""The page of one task, and the log of each of its deliveries, which is requested from the node."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from dalston_queue.accounts.roles import may_operate
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.nodes.commands import CommandState
from dalston_queue.dashboard.live.fragments import by_name
from dalston_queue.dashboard.nodes.logs import shown
from dalston_queue.dashboard.parts.black_box import BlackBox, black_box
from dalston_queue.dashboard.security.roles import page_view
from dalston_queue.dashboard.task.lines import AROUND, task_lines
from dalston_queue.dashboard.task.read import DeliveryLine, delivery_lines, read_task
from dalston_queue.dashboard.task.render import fragments_of
from dalston_queue.database import before_wait
from dalston_queue.jobs.queries.timeline import Delivery
from dalston_queue.models import DeadLetter, Task
from dalston_queue.redis import get_broker


@page_view
def task(request: HttpRequest, task_id: UUID) -> HttpResponse:
    view = read_task(task_id)
    if view is None:
        raise Http404(f"there is no task {task_id}")
    shown = by_name(fragments_of(view, may_operate(request.user)))
    context = {**shown, "view": view, "with_actions": "actions" in request.GET}
    return render(request, "dashboard/task/page.html", context)


@page_view
def lines(request: HttpRequest, task_id: UUID) -> HttpResponse:
    """On request only: each node that had the task is asked. Without a script, a page."""
    found = Task.objects.select_related("job").defer("parameters", "result").filter(pk=task_id).first()
    if found is None:
        raise Http404(f"there is no task {task_id}")
    template = "_lines" if "HX-Request" in request.headers else "lines"
    return render(request, f"dashboard/task/{template}.html", {"task": found, "lines": task_lines(found)})


@page_view
def delivery_log(request: HttpRequest, task_id: UUID, number: int) -> HttpResponse:
    """The node needs a moment to send the log, so the task's page loads it separately. Without a script, a page."""
    lines = delivery_lines(task_id)
    if not 1 <= number <= len(lines):
        raise Http404(f"task {task_id} has no delivery {number}")
    line = lines[number - 1]
    log, problem = read_log(line)
    box = None if log else box_of(task_id, line.delivery)
    template = "_log" if "HX-Request" in request.headers else "log"
    context = {"line": line, "log": log, "problem": problem, "box": box, "task_id": task_id}
    return render(request, f"dashboard/task/{template}.html", context)


LINES = 500


def read_log(line: DeliveryLine) -> tuple[str, str]:
    """The lines of the log, or why there are none."""
    if not line.node:
        return "", "The engine had no supervisor, so its log is not kept."
    since, until = line.delivery.started_at or line.delivery.finished_at, line.delivery.finished_at
    broker = get_broker()
    try:
        if line.node not in {node.node_id for node in broker.registry.nodes()}:
            return "", f"The node {line.node} is down, so its logs cannot be read."
        before_wait()
        tail = broker.logs(line.node).tail(
            line.delivery.engine_id,
            lines=LINES,
            since_ms=_ms(since - AROUND) if since else None,
            until_ms=_ms(until + AROUND) if until else None,
            actor="dashboard",
        )
    except BrokerError:
        return "", "Redis does not answer, so the log cannot be requested."
    if tail.complete:
        text = "\n".join(shown(each) for each in tail.lines)
        return text, "" if text else "The engine logged nothing meanwhile, or its log of that time was deleted."
    if tail.status is not None and tail.status.state is CommandState.FAILED:
        return "", f"{line.node}: {tail.status.message}."
    return "", f"The node {line.node} does not answer."


def box_of(task_id: UUID, delivery: Delivery) -> BlackBox | None:
    """What the supervisor recorded, from this attempt's dead letter: the only trace of an engine on a lost node."""
    dead_letters = DeadLetter.objects.filter(task_id=task_id, attempt=delivery.attempt).order_by("-id")
    return black_box(dead_letters.values_list("evidence", flat=True).first())


def _ms(moment: datetime) -> int:
    return max(0, int(moment.timestamp() * 1000))

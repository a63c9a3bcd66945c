"""The page of one task, and the log of each of its runs."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dalston_queue.accounts.roles import may_operate
from dalston_queue.dashboard.live.fragments import by_name
from dalston_queue.dashboard.task.read import read_task, run_lines
from dalston_queue.dashboard.task.render import fragments_of
from dalston_queue.dashboard.task.run_log import box_of, read_log


@require_safe
@never_cache
@login_required
def task(request: HttpRequest, task_id: UUID) -> HttpResponse:
    view = read_task(task_id)
    if view is None:
        raise Http404(f"there is no task {task_id}")
    shown = by_name(fragments_of(view, may_operate(request.user)))
    return render(request, "dashboard/task.html", {**shown, "view": view, "acts": "act" in request.GET})


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
    template = "_run_log" if "HX-Request" in request.headers else "run_log"
    context = {"line": line, "log": log, "problem": problem, "box": box, "task_id": task_id}
    return render(request, f"dashboard/{template}.html", context)

"""The page of one task: what it was given, what its parents and it gave, who ran it, and the logs of each run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dalston_queue.broker.commands import CommandState
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.logs import engine_place
from dalston_queue.dashboard.black_box import BlackBox, black_box, pretty
from dalston_queue.dashboard.fragments import TASK_TONES
from dalston_queue.dashboard.job_gantt import TONES, outcome_words
from dalston_queue.dashboard.nodes_logs import shown
from dalston_queue.jobs.timeline import Run, runs_of
from dalston_queue.jobs.why import explain, facts_about
from dalston_queue.models import DeadLetter, Task, TaskEvent
from dalston_queue.redis import get_broker

FOLDED = 2_000
"""Characters; what is longer is folded away at first."""
LINES = 500
AROUND = timedelta(seconds=1)
"""Logged a moment before the start was recorded, or after the end, and of the run all the same."""


@dataclass(frozen=True, slots=True)
class Content:
    name: str
    text: str
    empty: str = "nothing"

    @property
    def is_long(self) -> bool:
        return len(self.text) > FOLDED


@dataclass(frozen=True, slots=True)
class RunLine:
    number: int
    run: Run
    words: str
    tone: str
    node: str  # empty: it ran without a supervisor, and nobody keeps its log
    slot: str


@require_safe
@never_cache
@login_required
def task(request: HttpRequest, task_id: UUID) -> HttpResponse:
    found = get_object_or_404(Task.objects.select_related("job"), pk=task_id)
    parents = Task.objects.filter(job_id=found.job_id, stage__in=found.after).order_by("id")
    context = {
        "task": found,
        "status": found.status.replace("_", " "),
        "tone": TASK_TONES.get(found.status, ""),
        "why": explain(found, facts_about(found, get_broker()), timezone.now()).sentence,
        "runs": run_lines(found.id)[::-1],
        "contents": [
            Content("Parameters", _text(found.parameters)),
            *(Content(f"Result of {parent.stage}", _text(parent.result), _no_result(parent)) for parent in parents),
            Content("Result", _text(found.result), _no_result(found)),
        ],
        "letters": DeadLetter.objects.filter(task_id=found.id).order_by("-id").only("id", "created_at", "error"),
    }
    return render(request, "dashboard/task.html", context)


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
    context = {"line": line, "log": log, "problem": problem, "box": _box(task_id, line.run) if not log else None}
    whole = "HX-Request" not in request.headers
    return render(request, f"dashboard/{'run_log' if whole else '_run_log'}.html", {**context, "task_id": task_id})


def run_lines(task_id: UUID) -> list[RunLine]:
    """Oldest first, counted from 1."""
    runs = runs_of(TaskEvent.objects.filter(task_id=task_id).order_by("id"))
    return [_run_line(number, run) for number, run in enumerate(runs, 1)]


def read_log(line: RunLine) -> tuple[str, str]:
    """Its lines, or why there are none."""
    if not line.node:
        return "", "It ran without a supervisor: nobody keeps its log."
    since, until = line.run.started_at or line.run.finished_at, line.run.finished_at
    broker = get_broker()
    try:
        if line.node not in {node.node_id for node in broker.registry.nodes()}:
            return "", f"The node {line.node} is away, and its logs with it."
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


def _run_line(number: int, run: Run) -> RunLine:
    node, slot = engine_place(run.engine_id) or ("", "")
    tone = "busy" if run.outcome is None else TONES[run.outcome]
    return RunLine(number, run, outcome_words(run), tone, node, slot)


def _box(task_id: UUID, run: Run) -> BlackBox | None:
    """What the supervisor saw, kept with the dead letter of this attempt: all that is left of a lost node's engine."""
    letters = DeadLetter.objects.filter(task_id=task_id, attempt=run.attempt).order_by("-id")
    return black_box(letters.values_list("evidence", flat=True).first())


def _no_result(task: Task) -> str:
    return "nothing: it gave none" if task.finished_at else "nothing yet"


def _text(value: Any) -> str:
    return "" if value is None or value == {} else pretty(value)


def _ms(moment: datetime) -> int:
    return max(0, int(moment.timestamp() * 1000))

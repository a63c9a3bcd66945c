"""Fragments of a queue's page, the same for the page and its WebSocket.

Rows have a button for operators only, so operators and viewers have a poll each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from dalston_queue.broker.views.pages import PendingOrder
from dalston_queue.dashboard.live.fragments import Fragment, Row, as_of, render, table
from dalston_queue.dashboard.overview.health import Finding, Tone, queue_finding
from dalston_queue.dashboard.overview.read import with_queue
from dalston_queue.dashboard.parts.request import BadQuery, address
from dalston_queue.dashboard.queue.query import QueueQuery, WindowEntry, queue_query
from dalston_queue.dashboard.queue.read import SHOWN, QueueView, RunningLine, read_queue
from dalston_queue.dashboard.queue.waiting import WaitingLine


def queue_fragments(queue: str, query: Mapping[str, str], may_operate: bool) -> list[Fragment]:
    try:
        wanted = queue_query(query)
    except BadQuery:  # the page says what is wrong; its WebSocket shows the queue without a filter
        wanted, query = QueueQuery(), {}
    return fragments_of(read_queue(queue, wanted), wanted, query, may_operate)


def fragments_of(view: QueueView, wanted: QueueQuery, query: Mapping[str, str], may_operate: bool) -> list[Fragment]:
    plain = {name: value for name, value in query.items() if name != "task"}
    here = address(plain, task=None)
    running = [_running(line, here, may_operate) for line in view.running]
    grouped = _are_grouped(view)
    waiting = [_waiting(line, here, may_operate, grouped) for line in view.waiting.lines]
    return [
        as_of(view.at),
        Fragment("queue", render("queue/_head", view=view, finding=_finding(view))),
        table("running", running if view.known else None, columns=9, empty="No running task matches the filter."),
        table("waiting", waiting if view.known else None, columns=6, empty="No task waits."),
        Fragment("waiting-parts", render("queue/_waiting_parts", parts=view.parts)),
        Fragment("running-pages", render("queue/_running_pages", **_pages(view, wanted, plain))),
        Fragment("waiting-pages", render("queue/_waiting_pages", **_waiting_pages(view, wanted, plain))),
        Fragment("target", render("task/_target", target=view.target)),
    ]


def _finding(view: QueueView) -> Finding:
    if not view.known:
        return Finding(Tone.BAD, "Redis does not answer.")
    finding = queue_finding(with_queue(view.queue), view.queue)
    return replace(finding, text=finding.text.removeprefix(f"{view.queue}: "))  # the page's title


@lru_cache(maxsize=2048)
def _running(line: RunningLine, here: str, may_operate: bool) -> Row:
    row_id, actions = f"running-{line.task_id}", _actions_url(here, line.task_id) if may_operate else ""
    return Row(row_id, render("queue/_running", row_id=row_id, line=line, actions=actions))


def _are_grouped(view: QueueView) -> bool:
    """True if tasks of several projects or keys wait."""
    return len({(line.named.project, line.named.concurrency_key) for line in view.waiting.lines if line.task_id}) > 1


@lru_cache(maxsize=1024)
def _waiting(line: WaitingLine, here: str, may_operate: bool, grouped: bool) -> Row:
    row_id = f"waiting-{line.place.entry_id if isinstance(line.place, WindowEntry) else line.task_id}"
    actions = _actions_url(here, line.task_id) if may_operate and line.task_id else ""
    return Row(row_id, render("queue/_waiting", row_id=row_id, line=line, actions=actions, grouped=grouped))


def _actions_url(here: str, task_id: str) -> str:
    return f"{here}{'&' if len(here) > 1 else ''}task={task_id}#actions"


def _pages(view: QueueView, wanted: QueueQuery, query: Mapping[str, str]) -> dict[str, object]:
    """The part of the running tasks that is shown, and the links to the pages around it."""
    shown: dict[str, object] = {
        "first": wanted.start + 1,
        "last": wanted.start + len(view.running),
        "total": view.total,
    }
    if wanted.owner or wanted.lane:
        top = address(query, after=None) if wanted.after else ""
        further = address(query, after=view.more_running) if view.more_running else ""
        return {**shown, "first": None, "total": view.total, "top": top, "further": further}
    shown["undated"] = max(0, view.undated)
    shown["by_idle"] = address(query, order=PendingOrder.IDLE, start=None)
    more = view.total is not None and view.total > wanted.start + SHOWN
    return {
        **shown,
        "top": address(query, start=None) if wanted.start else "",
        "nearer": address(query, start=max(0, wanted.start - SHOWN) or None) if wanted.start else "",
        "further": address(query, start=wanted.start + SHOWN) if more else "",
    }


def _waiting_pages(view: QueueView, wanted: QueueQuery, query: Mapping[str, str]) -> dict[str, object]:
    return {
        "top": address(query, waiting=None) if wanted.waiting_after else "",
        "further": address(query, waiting=view.waiting.more) if view.waiting.more else "",
        "view": view,
    }

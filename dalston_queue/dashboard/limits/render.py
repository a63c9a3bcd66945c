"""Fragments of the page of limits, the same for the page and its WebSocket.

Rows have a button for operators only, so operators and viewers have a poll each.
"""

from __future__ import annotations

from functools import lru_cache

from dalston_queue.dashboard.limits.read import LimitLine, LimitsView, ProjectLine, read_limits
from dalston_queue.dashboard.live.fragments import Fragment, Row, as_of, render, table
from dalston_queue.dashboard.parts.words import count

NO_LIMIT = (
    "No limit. Projects share the slots by their weights, and what waits longest comes first. A limit keeps a queue, a"
    " project or a customer to so many tasks in flight, or to so many starts a minute: for software with few licences,"
    " a slow service behind the engines, or a customer who sends ten thousand files at once."
)


def limits_fragments(may_operate: bool) -> list[Fragment]:
    return fragments_of(read_limits(), may_operate)


def fragments_of(view: LimitsView, may_operate: bool) -> list[Fragment]:
    limits = [_limit(line, may_operate) for line in view.limits]
    projects = [_project(line, may_operate) for line in view.projects]
    return [
        as_of(view.at),
        table("limits", limits, columns=5, empty=NO_LIMIT, source="Postgres"),
        table("projects", projects, columns=4, empty="No project yet.", source="Postgres"),
        _more("limits-more", view.more_limits, "limit"),
        _more("projects-more", view.more_projects, "project"),
    ]


def _more(name: str, number: int, noun: str) -> Fragment:
    words = f"{count(number, f'more {noun}')}: see the admin or the API." if number > 0 else ""
    return Fragment(name, f'<p id="{name}" class="foot">{words}</p>')


@lru_cache(maxsize=1024)
def _limit(line: LimitLine, may_operate: bool) -> Row:
    row_id = f"limit-{line.id}"
    return Row(row_id, render("limits/_limit", row_id=row_id, line=line, may_operate=may_operate))


@lru_cache(maxsize=1024)
def _project(line: ProjectLine, may_operate: bool) -> Row:
    row_id = f"project-{line.name}"
    return Row(row_id, render("limits/_project", row_id=row_id, project=line, may_operate=may_operate))

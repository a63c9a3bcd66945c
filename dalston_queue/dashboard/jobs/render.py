"""Fragments of the page of jobs, the same for the page and its WebSocket."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from django.utils.html import format_html

from dalston_queue.dashboard.jobs.read import JobRow, JobsView, reader_of
from dalston_queue.dashboard.live.fragments import Fragment, Row, as_of, render, table
from dalston_queue.dashboard.parts.request import address
from dalston_queue.dashboard.parts.words import TASK_TONES, time_spent


def jobs_fragments(query: Mapping[str, str]) -> list[Fragment]:
    return fragments_of(reader_of(tuple(query.items()))(), query)


def fragments_of(view: JobsView, query: Mapping[str, str]) -> list[Fragment]:
    older = address(query, after=view.older) if view.older else ""
    newest = address(query, after=None) if "after" in query else ""
    return [
        as_of(view.at),
        Fragment("jobs-problem", format_html('<div id="jobs-problem">{}</div>', _problem(view.problem))),
        table("jobs", [_job(row) for row in view.rows], columns=7, empty=_empty(view, query)),
        Fragment("older", render("_older", older=older, newest=newest)),
    ]


def _problem(text: str) -> str:
    return format_html('<p class="notice bad" role="alert">{}</p>', text) if text else ""


def _empty(view: JobsView, query: Mapping[str, str]) -> str:
    if view.problem:
        return "Nothing was searched."
    if any(name != "after" for name in query):
        return "No job matches. Names, types and tokens are compared exactly; an error matches by any part of it."
    return "No job yet. The overview shows the command that submits the first one."


@lru_cache(maxsize=2048)
def _job(job: JobRow) -> Row:
    row_id = f"job-{job.id}"
    tone, spent = TASK_TONES.get(job.status, ""), time_spent(job.started_at, job.finished_at)
    return Row(row_id, render("jobs/_job", row_id=row_id, job=job, tone=tone, spent=spent))

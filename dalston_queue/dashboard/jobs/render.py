"""The page of jobs as named pieces of HTML, the same for the page and the socket."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from dalston_queue.dashboard.jobs.read import JobRow, JobsView, reader_of
from dalston_queue.dashboard.live.fragments import Fragment, Row, pulse, render, table
from dalston_queue.dashboard.parts.request import address
from dalston_queue.dashboard.parts.words import TASK_TONES, words_for


def jobs_fragments(query: Mapping[str, str]) -> list[Fragment]:
    return fragments_of(reader_of(tuple(query.items()))(), query)


def fragments_of(view: JobsView, query: Mapping[str, str]) -> list[Fragment]:
    older = address(query, after=view.older) if view.older else ""
    newest = address(query, after=None) if "after" in query else ""
    empty = not view.rows and any(name != "after" for name in query)
    rows = [_job(row) for row in view.rows]
    return [
        pulse(view.at),
        Fragment("jobs-problem", render("jobs_problem", problem=view.problem)),
        table("jobs", rows) if rows else Fragment("jobs", render("jobs_empty", searched=empty, problem=view.problem)),
        Fragment("older", render("older", older=older, newest=newest)),
    ]


@lru_cache(maxsize=2048)
def _job(job: JobRow) -> Row:
    row_id = f"job-{job.id}"
    tone, spent = TASK_TONES.get(job.status, ""), words_for(job.started_at, job.finished_at)
    return Row(row_id, render("job_row", row_id=row_id, job=job, tone=tone, spent=spent))

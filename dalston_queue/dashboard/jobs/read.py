"""What the page of jobs reads, as plain values: a page of the jobs that match the query string.

An expensive search is not repeated with every tick: between two searches only the rows it found are read again, by
their primary keys.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from dalston_queue.dashboard.parts.request import BadQuery, moment, uuid, word
from dalston_queue.jobs.errors import InvalidSearch, SearchTooWide, sentence
from dalston_queue.jobs.lifecycle.states import JobStatus
from dalston_queue.jobs.queries.search import JobSearch, find_jobs, page_of
from dalston_queue.models import ApiToken, Job

SHOWN = 50
FIELDS = ("id", "status", "type", "error", "payload", "token", "since", "until", "after")
REST = 20.0
"""An expensive search is repeated after so many times as long as it took."""
MAX_OFFERED = 200


@dataclass(frozen=True, slots=True)
class JobRow:
    id: str
    name: str
    status: str
    priority: str
    project: str
    token: str
    percent: int
    error: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class JobsView:
    at: datetime
    rows: tuple[JobRow, ...] = ()
    older: UUID | None = None  # the id after which the next page begins
    problem: str = ""


def wanted_by(query: Mapping[str, str]) -> JobSearch:
    """Raises BadQuery."""
    status = word(query, "status")
    if status is not None and status not in set(JobStatus):
        raise BadQuery(f"status is one of {', '.join(JobStatus)}.")
    return JobSearch(
        id=uuid(query, "id"),
        status=status,
        task_type=word(query, "type"),
        error=word(query, "error"),
        payload=word(query, "payload"),
        token=word(query, "token"),
        created_after=moment(query, "since"),
        created_before=moment(query, "until"),
    )


@dataclass(slots=True)
class JobsReader:
    """The results for one query string, kept from tick to tick."""

    query: Mapping[str, str]
    _found: tuple[list[UUID], UUID | None] = field(default_factory=lambda: ([], None))
    _search_again_at: float = 0.0
    _problem: str = ""

    def __call__(self) -> JobsView:
        try:
            wanted = wanted_by(self.query)
            if time.monotonic() >= self._search_again_at:
                return self._search(wanted)
        except (BadQuery, InvalidSearch) as error:
            return JobsView(timezone.now(), problem=sentence(error))
        ids, older = self._found
        rows = {row.pk: row for row in _with_names(Job.objects.filter(pk__in=ids))}
        return JobsView(timezone.now(), tuple(_row(rows[pk]) for pk in ids if pk in rows), older, self._problem)

    def _search(self, wanted: JobSearch) -> JobsView:
        started = time.monotonic()
        found: Sequence[Job] = ()
        older, problem = None, ""
        try:
            found, older = page_of(_with_names(find_jobs(wanted)), SHOWN, uuid(self.query, "after"))
        except SearchTooWide as error:
            problem = sentence(error)
        self._found, self._problem = ([row.pk for row in found], older), problem
        took = time.monotonic() - started
        self._search_again_at = 0.0 if wanted.is_cheap else started + REST * took
        return JobsView(timezone.now(), tuple(_row(row) for row in found), older, problem)


@lru_cache(maxsize=256)
def reader_of(query: tuple[tuple[str, str], ...]) -> JobsReader:
    """One reader per query string: it knows when to search again."""
    return JobsReader(dict(query))


def offered_tokens() -> list[str]:
    names = ApiToken.objects.order_by("name").values_list("name", flat=True).distinct()
    return list(names[:MAX_OFFERED])


def _with_names(rows: QuerySet[Job]) -> QuerySet[Job]:
    return rows.select_related("project", "token").defer("parameters")


def _row(job: Job) -> JobRow:
    return JobRow(
        id=str(job.pk),
        name=job.name,
        status=job.status,
        priority=job.priority,
        project=job.project.name,
        token=job.token.name if job.token else "",
        percent=round(100 * job.progress),
        error=job.error[:300],
        created_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
    )

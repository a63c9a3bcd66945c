"""Search of jobs and tasks, the same for the API and the pages.

Lists are newest first. Ids are time-ordered, so a page begins after an id, and a span of time is a span of ids: both
use the primary key. A search that finds little in a long history would read all of it, so it has a time limit.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import msgspec
from django.db import OperationalError, connection, transaction
from django.db.models import Exists, Model, OuterRef, Q, QuerySet
from django.db.models.fields.json import KeyTextTransform, KeyTransform

from dalston_queue.database import before_wait
from dalston_queue.jobs.errors import InvalidSearch, SearchTooWide, TooManySearches
from dalston_queue.models import Job, Task
from dalston_queue.slots import Slots

SEARCH_TIMEOUT_MS = 5_000
QUICK_MS = 300
"""A read that takes longer needs one of SLOW_READS: a connection of the pool for seconds."""
SLOW_READS = Slots(4)
"""Of the ten connections of a web process; at most half of what is free for each project, and for the pages."""
reader: ContextVar[str] = ContextVar("reader", default="pages")
"""Whose share of SLOW_READS a read takes."""
PAGE_BYTES = 4 * 1024 * 1024
"""Of parameters and results in a page: 200 tasks may have 500 KiB each, and clients may read their answers slowly."""
ROWS_AT_ONCE = 51
"""Read before it is known how large they are: a page of the default limit is one statement."""
_encode = msgspec.json.Encoder().encode
_SLACK = timedelta(minutes=1)
"""Between the id of a row and its created_at: both are taken at about the same time, by clocks of several machines."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Row = TypeVar("Row", bound=Model)
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class JobSearch:
    """A filter of jobs, by every field that is not None."""

    id: UUID | None = None  # its own, or that of one of its tasks
    status: str | None = None
    name: str | None = None
    task_type: str | None = None  # of one of its tasks
    error: str | None = None  # words of its error
    payload: str | None = None  # a field of the parameters of one of its tasks: `user.id:42`
    token: str | None = None  # the name of the token that submitted it
    created_after: datetime | None = None
    created_before: datetime | None = None

    @property
    def is_cheap(self) -> bool:
        """True if an index finds the jobs; otherwise jobs are read one by one until a page is full."""
        return not any((self.name, self.task_type, self.error, self.payload, self.token))


def find_jobs(wanted: JobSearch) -> QuerySet[Job]:
    """Raises InvalidSearch."""
    rows = created_between(Job.objects.all(), wanted.created_after, wanted.created_before)
    if wanted.id is not None:
        rows = rows.filter(Q(pk=wanted.id) | Q(pk__in=Task.objects.filter(pk=wanted.id).values("job_id")))
    if wanted.status is not None:
        rows = rows.filter(status=wanted.status)
    if wanted.name is not None:
        rows = rows.filter(name=wanted.name)
    if wanted.error is not None:
        rows = rows.filter(error__icontains=wanted.error)
    if wanted.token is not None:
        rows = rows.filter(token__name=wanted.token)
    if wanted.task_type is not None or wanted.payload is not None:
        tasks = Task.objects.filter(job_id=OuterRef("pk"))
        if wanted.task_type is not None:
            tasks = tasks.filter(task_type=wanted.task_type)
        if wanted.payload is not None:
            tasks = with_parameter(tasks, wanted.payload)
        rows = rows.filter(Exists(tasks))
    return rows


def created_between(rows: QuerySet[Row], after: datetime | None, before: datetime | None) -> QuerySet[Row]:
    """From `after` on, and earlier than `before`. A time without an offset is UTC."""
    if after is not None:
        after = _with_offset(after)
        rows = rows.filter(created_at__gte=after, pk__gte=_id_at(after, -_SLACK))
    if before is not None:
        before = _with_offset(before)
        rows = rows.filter(created_at__lt=before, pk__lt=_id_at(before, _SLACK))
    return rows


def _with_offset(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _id_at(moment: datetime, slack: timedelta) -> UUID:
    """The lowest UUIDv7 of this time plus `slack`, within the range that an id can have."""
    milliseconds = (moment - _EPOCH + slack) // timedelta(milliseconds=1)
    return UUID(int=max(0, min(milliseconds, 2**48 - 1)) << 80)


def with_parameter(tasks: QuerySet[Task], wanted: str) -> QuerySet[Task]:
    """Tasks with this field in their parameters, written as `user.id:42`. Raises InvalidSearch."""
    path, colon, value = wanted.partition(":")
    *parents, leaf = path.split(".")
    if not colon or "\x00" in wanted or not all([*parents, leaf]):
        raise InvalidSearch("payload: write the path of a field and its value, as in `user.id:42`")
    field: Any = "parameters"
    for parent in parents:
        field = KeyTransform(parent, field)
    return tasks.annotate(wanted_parameter=KeyTextTransform(leaf, field)).filter(wanted_parameter=value)


def page_of(rows: QuerySet[Row], limit: int, after: UUID | None) -> tuple[Sequence[Row], UUID | None]:
    """A page, newest first, and the id after which the next one begins. It ends early after PAGE_BYTES. Raises
    SearchTooWide."""
    rows = rows.order_by("-pk")
    found: list[Row] = []
    size = 0
    while True:
        wanted = min(ROWS_AT_ONCE, limit + 1 - len(found))
        part = bounded(partial(_rows_after, rows, found[-1].pk if found else after, wanted))
        for row in part:
            if len(found) == limit or size > PAGE_BYTES:
                return found, found[-1].pk
            found.append(row)
            size += _bytes_of(row)
        if len(part) < wanted:
            return found, None


def _rows_after(rows: QuerySet[Row], after: UUID | None, count: int) -> list[Row]:
    return list((rows if after is None else rows.filter(pk__lt=after))[:count])


def _bytes_of(row: Model) -> int:
    """Bytes of the row's JSON fields; deferred ones count nothing."""
    fields = row.__dict__
    return sum(len(_encode(fields[name])) for name in ("parameters", "result", "raw") if fields.get(name))


COUNTED = 10_000
COUNT_TIMEOUT_MS = 500


def count_of(rows: QuerySet[Row]) -> tuple[int | None, bool | None]:
    """How many rows match, up to COUNTED, and whether that is exact; None if counting takes too long."""
    try:
        found = _within(COUNT_TIMEOUT_MS, rows.order_by()[: COUNTED + 1].count)
    except _OutOfTime:
        return None, None
    return min(found, COUNTED), found <= COUNTED


def bounded(ask: Callable[[], Found], hint: str = "name a status, a type or a time") -> Found:
    """The result of `ask`, if the database has it in time. Raises SearchTooWide and TooManySearches.

    `ask` runs for a short time first. What is not over then runs once more, for longer, when there is a slot for it:
    twenty slow searches at a time would take all connections from the other requests.
    """
    if not connection.in_atomic_block:
        with suppress(_OutOfTime):
            return _within(QUICK_MS, ask)
        before_wait()  # the wait holds none
    with SLOW_READS.take(reader.get(), wait_s=SEARCH_TIMEOUT_MS / 1000) as free:
        if not free:
            raise TooManySearches("other slow searches of this project run already; try again when they are over")
        try:
            return _within(SEARCH_TIMEOUT_MS, ask)
        except _OutOfTime:
            raise SearchTooWide(f"the search took more than {SEARCH_TIMEOUT_MS // 1000} s: {hint}") from None


class _OutOfTime(Exception):
    pass


def _within(timeout_ms: int, ask: Callable[[], Found]) -> Found:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(timeout_ms)])
            return ask()
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) == "57014":
            raise _OutOfTime from None
        raise

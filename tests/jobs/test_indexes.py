"""The queries that run every second use their own small index, whatever else the tables hold."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dalston_queue.broker.protocol.types import Tier
from dalston_queue.jobs.lifecycle import advance, status, stop
from dalston_queue.jobs.order import ageing, spending, waiting, withdrawal
from dalston_queue.jobs.queries import limits as limits_in_use
from dalston_queue.jobs.queries import turn
from dalston_queue.jobs.queries.lanes import read_ready
from dalston_queue.jobs.queries.ready import Place, ready_page
from dalston_queue.models import Depth, Task
from dalston_queue.orchestrator import loop, scheduler
from dalston_queue.orchestrator.duties import housekeeping, reconciler
from tests.jobs import make

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_hints")]

_MANY_JOBS = """
    INSERT INTO dalston_job
        (id, project_id, name, status, priority, parameters, trace_id, progress, error, created_at, finished_at)
    SELECT gen_random_uuid(), %s, 'old', 'completed', 'medium', '{}', '', 1, '', now(), now()
    FROM generate_series(1, 20000)"""
_MANY_TASKS = """
    INSERT INTO dalston_task
        (id, job_id, project_id, stage, queue, lane, concurrency_key, task_type, after, required, weight, status,
         priority, effective_priority, required_capabilities, parameters, timeout_seconds, attempt, event_seq,
         max_retries, retry_count, deliveries,
         node_losses, assigned_worker_id, error, error_type, error_cause, created_at, finished_at)
    SELECT gen_random_uuid(), id, project_id, 'old', 'old', 'old', '', 'old', '{}', true, 1, 'completed',
         'medium', 'medium', '{}', '{}', 600,
         1, 0, 3, 0, 0, 0, '', '', '', '', now(), now()
    FROM dalston_job WHERE name = 'old'"""
# All replayed but two. An empty table that autovacuum has seen would be cheapest to read whole.
_MANY_DEAD_LETTERS = """
    INSERT INTO dalston_dead_letter
        (id, task_id, queue, task_type, attempt, deliveries, cause, error, error_type, traceback, fingerprint,
         created_at, replayed_at)
    SELECT gen_random_uuid(), id, 'old', 'old', 1, 1, 'error', '', '', '', 'a', now(),
         CASE WHEN row_number() OVER () > 2 THEN now() END
    FROM dalston_task WHERE stage = 'old'"""


@pytest.fixture
def history() -> None:
    """20 000 finished jobs of one task, each with a dead letter, and one of each live kind."""
    with connection.cursor() as cursor:
        cursor.execute(_MANY_JOBS, [make.project().pk])
        cursor.execute(_MANY_TASKS)
        cursor.execute(_MANY_DEAD_LETTERS)
        make.single()
        make.claim(make.dag(a="", b="a"))
        # Dead entries of earlier tests make an index dearer, and the planner's choice depend on the order of tests.
        for table in ("dalston_job", "dalston_task", "dalston_dead_letter"):
            cursor.execute(f"REINDEX TABLE {table}")
            cursor.execute(f"ANALYZE {table}")


def plan(query: str, *arguments: Any, **named: Any) -> str:
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN " + query, named or arguments)
        return "\n".join(row[0] for row in cursor.fetchall())


@pytest.mark.usefixtures("history")
def test_each_poll_uses_its_index_and_never_reads_the_whole_table() -> None:
    jobs = [make.dag(a="").id]
    expected = {
        "job_pending": plan(loop.PENDING, count=500),
        "task_ready_by_age": plan(waiting.OLDEST, "echo", "medium", 500)
        + plan(ageing.AGED, "echo", "low", make.NOW, 9),
        "task_ready_by_group": plan(waiting.GROUPS, lane="echo", tier="medium", keys=9, last="z")
        + plan(
            turn.OLDER, lane="echo", tier="medium", project=UUID(int=0), key="", at=make.NOW, id=UUID(int=0), count=9
        ),
        "task_stopping": plan(stop.STOPPING, 100),
        "task_scheduled": plan(scheduler.DUE, make.NOW, 100) + plan(scheduler.NEXT),
        "task_pending": plan(advance._UNBLOCKED, make.NOW, jobs),
        "one_task_per_stage": plan(advance._TALLY, jobs),
        "dalston_job_pkey": plan(status.LOCK_JOBS, jobs),
        "task_in_flight": plan(reconciler.IN_REDIS, "echo", UUID(int=0), "", UUID(int=0), 1000)
        + plan(waiting.IN_FLIGHT, "echo")
        + plan(spending.IN_FLIGHT_ANYWHERE, [make.project().pk])
        + plan(limits_in_use.IN_FLIGHT)
        + plan(withdrawal.ENTRIES, ["echo"], [make.project().pk], 500)
        + plan(ageing.AGED_IN_WINDOW, "echo", "echo", "low", make.NOW, 9),
        "job_live": plan(reconciler.STUCK_JOBS, UUID(int=0), 1000),
        "job_finished": plan(housekeeping._OLD_JOBS, make.NOW - timedelta(days=90), 1000),
    }
    for index, found in expected.items():
        assert index in found, found
        # Projects are few: their table may be read whole.
        assert "Seq Scan" not in found.replace("Seq Scan on dalston_project ", ""), found


@pytest.mark.usefixtures("history")
def test_what_waits_behind_a_limit_is_counted_in_its_index() -> None:
    one = {"ids": [1], "projects": [make.project().pk], "first": [""], "last": ["z"], "lanes": ["echo"]}
    found = plan(limits_in_use.WAITING, **one, tiers=["medium"], count=1000)
    assert "task_ready_by_" in found, found
    assert "Seq Scan" not in found, found


def read(ask: Callable[[], Any]) -> tuple[str, int]:
    """The plan of its one query, and how many blocks it reads."""
    with CaptureQueriesContext(connection) as captured:
        ask()
    [query] = captured.captured_queries
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN (ANALYZE, BUFFERS) " + query["sql"].replace("%", "%%"))
        found = "\n".join(row[0] for row in cursor.fetchall())
    buffers = re.search(r"Buffers: (?:shared )?(.*)", found)
    assert buffers, found
    return found, sum(int(count) for count in re.findall(r"(?:hit|read)=(\d+)", buffers[1]))


@pytest.mark.usefixtures("history")
def test_a_page_of_what_waits_reads_the_entries_that_it_shows_however_many_there_are() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE dalston_task SET status = 'ready', finished_at = NULL, queue = 'deep', lane = 'deep',
                      first_enqueued_at = now() - random() * interval '1 h'
               WHERE stage = 'old'"""
        )
        cursor.execute("REINDEX TABLE dalston_task")
        cursor.execute("ANALYZE dalston_task")
    Depth.objects.create(lane="deep", tier="medium", ready=20_000, queued=0, running=0)
    last = Task.objects.filter(queue="deep").order_by("-first_enqueued_at")[60]
    assert last.first_enqueued_at
    far = Place(Tier.MEDIUM, last.first_enqueued_at, last.id)
    queries: dict[str, Callable[[], Any]] = {
        "numbers": read_ready,
        "first page": lambda: ready_page("deep", limit=21),
        "last page": lambda: ready_page("deep", limit=21, after=far),
        "one lane": lambda: ready_page("deep", limit=21, lane_tier=("deep", "medium"), after=far),
    }
    for name, query in queries.items():
        found, blocks = read(query)
        assert "task_ready_by_age" in found, found
        assert "Seq Scan on dalston_task" not in found, found
        assert blocks < 300, (name, found)
    assert read_ready()["deep"]["", Tier.MEDIUM].tasks == 20_000
    assert len(ready_page("deep", limit=21, after=far)) == 21

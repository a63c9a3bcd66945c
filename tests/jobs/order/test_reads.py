"""Reads of a refill: index scans that stop. No row is visited for a task that a limit holds."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from bench.harness.ready_tasks import add_ready
from dalston_queue.broker import Broker
from dalston_queue.jobs.order import waiting
from dalston_queue.jobs.order.refill import refill
from dalston_queue.models import Limit, Project, Task
from tests.jobs import make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.keeps_keys]
BLOCKED, FREE = 5000, 20
LANE_TIER = {"lane": "echo", "tier": "medium"}


def run(statement: str, arguments: Any) -> dict[str, Any]:
    """The plan of a statement with what it has really read."""
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement, arguments)
        [found] = cursor.fetchone()
    plan: dict[str, Any] = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    return plan


def scans(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The nodes that read tasks."""
    if plan.get("Relation Name") == "dalston_task":
        yield plan
    for part in plan.get("Plans", ()):
        yield from scans(part)


def rows_read(plan: dict[str, Any]) -> float:
    """Rows of tasks that were visited, those included that a filter then removed."""
    assert all("Index Name" in scan for scan in scans(plan)), plan
    return sum(
        float((scan["Actual Rows"] + scan.get("Rows Removed by Filter", 0)) * scan["Actual Loops"])
        for scan in scans(plan)
    )


def test_a_refill_visits_no_row_for_a_task_that_a_limit_holds(broker: Broker) -> None:
    held, free = make.project("held"), make.project("free")
    add_ready(BLOCKED, [held.pk], key="customer")
    add_ready(FREE, [free.pk], oldest="2026-01-01T13:00:00Z")
    Limit.objects.create(queue="echo", project=held, concurrency_key="customer", max_in_flight=0)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE dalston_task")
    check_reads(free)
    refill(None, make.NOW)
    assert set(Task.objects.filter(status="queued").values_list("project", flat=True)) == {free.pk}
    assert broker.snapshot(["echo"]).queues[0].waiting == 4


def test_without_statistics_they_are_the_same() -> None:
    """A client submits thousands of tasks within a second; autovacuum comes within a minute."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM dalston_task")  # what other tests have deleted
        cursor.execute("DELETE FROM pg_statistic WHERE starelid = 'dalston_task'::regclass")
    held, free = make.project("held"), make.project("free")
    add_ready(BLOCKED, [held.pk], key="customer")
    add_ready(FREE, [free.pk], oldest="2026-01-01T13:00:00Z")
    check_reads(free)


def test_with_statistics_of_a_quiet_minute_each_of_many_groups_costs_a_row() -> None:
    """A client submits tasks with a key of their own each, where there were none when autovacuum came."""
    project = make.project("many")
    add_ready(BLOCKED, [project.pk])
    with connection.cursor() as cursor:
        cursor.execute("UPDATE dalston_task SET status = 'completed', finished_at = now(), result = '1'")
        cursor.execute("VACUUM ANALYZE dalston_task")
        add_ready(BLOCKED, [project.pk])
        cursor.execute("UPDATE dalston_task SET concurrency_key = id::text WHERE status = 'ready'")
        cursor.execute("SELECT concurrency_key FROM dalston_task WHERE status = 'ready' ORDER BY id LIMIT 100")
        keys = [key for (key,) in cursor.fetchall()]
    chosen = {"projects": [project.pk] * len(keys), "of_keys": keys, "counts": [1] * len(keys)}
    with transaction.atomic(), waiting.by_index():
        plan = run(waiting.OLDEST_OF_GROUPS, {**LANE_TIER, **chosen})
    assert rows_read(plan) == len(keys)
    assert len(waiting.oldest_of(("echo", "medium"), [(project.pk, key) for key in keys])) == len(keys)


def check_reads(free: Project) -> None:
    groups = run(waiting.GROUPS, {**LANE_TIER, "keys": waiting.MAX_KEYS, "last": "\U0010ffff"})
    assert rows_read(groups) == 2, "one per group"
    chosen = {"projects": [free.pk], "of_keys": [""], "counts": [FREE]}
    tasks = run(waiting.OLDEST_OF_GROUPS, {**LANE_TIER, **chosen})
    assert rows_read(tasks) == FREE
    flying = run(waiting.IN_FLIGHT, ["echo"])
    assert rows_read(flying) == 0
    for plan in (groups, tasks, flying):
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 60, plan

"""After FLUSHALL the reconciler rebuilds a hundred thousand waiting tasks in under 30 s."""

import time

import pytest
from django.db import connection

from dalston_queue.broker import Broker
from dalston_queue.models import Task
from dalston_queue.orchestrator.duties.reconciler import reconcile
from tests.jobs import make

COUNT = 100_000
JOBS = """
    INSERT INTO dalston_job
        (id, project_id, name, status, priority, parameters, trace_id, progress, error, created_at, started_at)
    SELECT gen_random_uuid(), %s, 'big', 'running', 'medium', '{}', 't', 0, '', now(), now()
    FROM generate_series(1, %s)"""
TASKS = """
    INSERT INTO dalston_task
        (id, job_id, project_id, stage, queue, lane, concurrency_key, task_type, after, required, weight, status,
         priority, effective_priority, required_capabilities, parameters, timeout_seconds, attempt, event_seq,
         max_retries, retry_count, deliveries,
         node_losses, assigned_worker_id, error, error_type, error_cause, created_at, first_enqueued_at)
    SELECT gen_random_uuid(), id, project_id, 'echo', 'echo', 'echo', '', 'echo', '{}', true, 1, 'queued',
         'medium', 'medium', '{}',
         '{"text": "a hundred bytes of parameters, more or less, as an ordinary request would have them, and a bit"}',
         600, 1, 0, 3, 0, 0, 0, '', '', '', '', now(), now()
    FROM dalston_job WHERE name = 'big'"""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.keeps_keys
@pytest.mark.django_db(transaction=True)
def test_a_hundred_thousand_waiting_tasks_are_rebuilt_in_under_30_s(broker: Broker) -> None:
    with connection.cursor() as cursor:
        cursor.execute(JOBS, [make.project().pk, COUNT])
        cursor.execute(TASKS)
        cursor.execute("ANALYZE dalston_job, dalston_task")
    started = time.monotonic()
    report = reconcile()
    took = time.monotonic() - started
    print(f"{COUNT} tasks rebuilt in {took:.1f} s")
    assert report.found == {"in Postgres but not in Redis": COUNT}
    assert [stats.waiting for stats in broker.snapshot(["echo"]).queues] == [COUNT]
    assert Task.objects.filter(status="queued", attempt=2).count() == COUNT
    assert took < 30

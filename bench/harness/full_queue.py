"""A full queue within seconds, for the dashboard: entries by a script inside Valkey, engines by their nodes' beats,
rows by Postgres itself from a series of numbers. Needs Django to be set up.
"""

import random
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.db import connection, models
from django.utils import timezone

from bench.harness.inserts import fast_inserts
from dalston_queue.broker import Broker
from dalston_queue.broker.connection import scripts
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.messages import TaskMessage, encode_task
from dalston_queue.broker.protocol.types import EngineState, NodeState, Tier
from dalston_queue.models import DeadLetter, Job, Project, Sample, Task

QUEUES = ("transcribe", "diarize", "align", "translate", "summarise", "redact", "embed", "deliver")
TIERS = (Tier.MEDIUM, Tier.HIGH, Tier.LOW)
LANES = [(queue, tier) for queue in QUEUES for tier in TIERS]
WINDOW = 128
"""Entries of each lane and tier that wait in Redis; the others wait in Postgres."""
PER_NODE = 8
GIB = 1024


@dataclass(frozen=True)
class Size:
    waiting: int
    pending: int
    engines: int
    viewers: int
    history: int  # jobs that are over
    dead_letters: int

    @property
    def per_lane(self) -> int:
        """Waiting tasks of each lane and tier."""
        return max(1, self.waiting // len(LANES))

    @property
    def nodes(self) -> int:
        return -(-self.engines // PER_NODE)


FULL = Size(waiting=1_000_000, pending=100_000, engines=200, viewers=50, history=50_000, dead_letters=5_000)
SMALL = Size(waiting=2_000, pending=400, engines=16, viewers=6, history=500, dead_letters=100)


def task_id(number: int) -> str:
    return f"01920000-0000-7000-8000-{number:012x}"


def job_id(number: int) -> str:
    return f"01910000-0000-7000-8000-{number:012x}"


def engine_id(number: int) -> str:
    return f"node-{number // PER_NODE:02}.{QUEUES[number % len(QUEUES)]}.{number % PER_NODE}.boot{number:04}"


def fill_redis(broker: Broker, size: Size) -> None:
    """Pending entries first, numbered from 0, so that an engine reads exactly its own; then those in the windows."""
    [shard] = broker.shards
    records = scripts.BROKER / "include" / "record.lua"
    source = records.read_text() + (Path(__file__).parent / "fill.lua").read_text()
    script = shard.client.register_script(source)
    keys, number = shard.keys, 0
    for queue in QUEUES:
        shard.client.sadd(keys.stages(), queue)
        shard.client.hset(keys.lanes(queue), mapping={"@": 1, "#v": 1})
    for engine in range(size.engines):
        share = size.pending // size.engines
        queue = QUEUES[engine % len(QUEUES)]
        _add(script, keys, queue, Tier.MEDIUM, number, share, engine_id(engine))
        number += share
    for position, (queue, tier) in enumerate(LANES):
        first = size.pending + position * size.per_lane
        _add(script, keys, queue, tier, first, min(WINDOW, size.per_lane), "")


def _add(script: Any, keys: Any, queue: str, tier: Tier, first: int, count: int, owner: str) -> None:
    message = TaskMessage(
        task_id="x", job_id="x", queue=queue, task_type=queue, attempt=1, parameters={"file": "a.wav"}
    )
    body = encode_task(message)[-1]
    names = [keys.stream(queue, "", tier), keys.tasks(queue), keys.running(queue), keys.deadlines(queue)]
    script(keys=names, args=[first, count, owner, int(time.time() * 1000), body])


def beat(broker: Broker, node: int, size: Size, why: str = "") -> None:
    """A supervisor's heartbeat, each time with other figures."""
    numbers = range(node * PER_NODE, min((node + 1) * PER_NODE, size.engines))
    name = f"node-{node:02}"
    devices = [
        {"uuid": f"GPU-{number}", "index": number % PER_NODE, "name": "NVIDIA L4", "total_mib": 24 * GIB,
         "used_mib": 11 * GIB + random.randrange(GIB), "utilisation": random.randrange(60, 100),
         "temperature": random.randrange(60, 75), "power_w": random.randrange(55, 72)}
        for number in numbers
    ]  # fmt: skip
    info = {"pid": 1, "why": why, "labels": {"zone": "b"}, "gpus": {"devices": devices}}
    broker.registry.beat_node(name, NodeState.ACTIVE, [_engine(number, size) for number in numbers], info)


def _engine(number: int, size: Size) -> EngineBeat:
    queue, share = QUEUES[number % len(QUEUES)], size.pending // size.engines
    tasks = [
        {"task_id": task_id(number * share + each), "queue": queue, "attempt": 1, "fraction": random.random()}
        for each in range(min(share, 32))
    ]
    info = {"slot": f"{queue}.{number % PER_NODE}", "engine": queue, "version": "1.0", "pid": 1000 + number,
            "tasks": tasks, "running": share, "exits": number % 3, "cpu_percent": random.random() * 100,
            "memory_mib": 3_000 + random.random()}  # fmt: skip
    return EngineBeat(engine_id=engine_id(number), state=EngineState.READY, queues=(queue,), capacity=512, info=info)


def fill(broker: Broker, size: Size) -> None:
    fill_postgres(size)
    fill_redis(broker, size)
    for node in range(size.nodes):
        beat(broker, node, size)


_TAIL = "lpad(to_hex(n), 12, '0')"
_TASK, _JOB = (f"('{head}-0000-7000-8000-' || {_TAIL})::uuid" for head in ("01920000", "01910000"))


_DEPTH = """
    INSERT INTO dalston_depth (lane, tier, ready, queued, running)
    SELECT lane, tier, count(*) FILTER (WHERE status = 'ready'), count(*) FILTER (WHERE status = 'queued'),
           count(*) FILTER (WHERE status = 'running')
    FROM dalston_task WHERE status IN ('ready', 'queued', 'running') GROUP BY lane, tier"""


def fill_postgres(size: Size) -> None:
    with fast_inserts():
        _insert_all(size)


def _insert_all(size: Size) -> None:
    """Numbers as in Redis: pending tasks from 0, then waiting, then completed ones, and of these the dead letters."""
    now = timezone.now()
    project = Project.objects.create(name="bench")
    total = size.pending + size.waiting
    job = Job(project=project, name="call.wav", trace_id="bench", created_at=now)
    states = {"running": (0, size.pending), "ready": (size.pending, total), "completed": (total, total + size.history)}
    for status, (first, end) in states.items():
        job.status = "completed" if status == "completed" else "running"
        job.finished_at = now if status == "completed" else None
        _insert(job, first, end, id=_JOB)
        _insert(_task(status, project, now), first, end, id=_TASK, job_id=_JOB, **_queues(status, size))
    with connection.cursor() as cursor:
        cursor.execute(_DEPTH)
    dead_letter = DeadLetter(
        queue="transcribe", task_type="transcribe", cause="error", attempt=4, created_at=now, retriable=True,
        project=project, engine_id=engine_id(0),
    )  # fmt: skip
    texts = {"fingerprint": "lpad((n % 40)::text, 16, '0')", "error": "'CUDA error ' || n % 40"}
    _insert(dead_letter, total, total + size.dead_letters, id=_TASK, task_id=_TASK, **texts)
    minute = now.replace(second=0, microsecond=0)
    tasks = {"completed": 900, "failed": 3, "retry_timeout": 5, "age_10": 50, "age_more": 9, "age_unread": 900_000}
    times = {f"{name}_{share}": 10.0 for name in ("wait", "run") for share in ("p50", "p95", "p99")}
    Sample.objects.bulk_create(
        Sample(kind=kind, name="all", at=minute - timedelta(minutes=back), numbers=numbers)
        for back in range(60)
        for kind, numbers in (("tasks", tasks | times), ("workers", {"capacity": 200, "running": 100 + back}))
    )


def _task(status: str, project: Project, now: datetime) -> Task:
    task = Task(
        project=project, stage="transcribe", queue="transcribe", lane="transcribe", task_type="transcribe",
        timeout_seconds=600, max_retries=3,
    )  # fmt: skip
    task.parameters = {"file": "s3://calls/2026/11/16/a.wav", "language": "en"}
    task.status, task.created_at, task.first_enqueued_at = status, now, now
    task.started_at = None if status == "ready" else now
    task.finished_at = now if status == "completed" else None
    return task


def _queues(status: str, size: Size) -> dict[str, str]:
    """SQL for the queue and the engine of each number, as in Redis."""
    if status == "running":
        share = size.pending // size.engines
        engines = ", ".join(f"'{engine_id(number)}'" for number in range(size.engines))
        queues = ", ".join(f"'{queue}'" for queue in QUEUES)
        engine = f"least(n / {share}, {size.engines - 1})"
        queue = f"(ARRAY[{queues}])[1 + {engine} % {len(QUEUES)}]"
        owner = f"(ARRAY[{engines}])[1 + {engine}]"
        return {"assigned_worker_id": owner, "queue": queue, "lane": queue, "task_type": queue}
    if status == "completed":
        return {}
    number = f"(n - {size.pending})"
    lane = f"1 + least({number} / {size.per_lane}, {len(LANES) - 1})"
    queues, tiers = (", ".join(f"'{lane[part]}'" for lane in LANES) for part in (0, 1))
    queue, priority = f"(ARRAY[{queues}])[{lane}]", f"(ARRAY[{tiers}])[{lane}]"
    in_window = f"{number} % {size.per_lane} < {WINDOW} AND {number} < {size.per_lane * len(LANES)}"
    return {
        "status": f"CASE WHEN {in_window} THEN 'queued' ELSE 'ready' END",
        "queue": queue, "lane": queue, "task_type": queue, "priority": priority, "effective_priority": priority,
    }  # fmt: skip


def _insert(row: models.Model, first: int, end: int, **expressions: str) -> None:
    """Inserts the row for each n from `first`; `expressions` of n are for columns that differ."""
    meta = type(row)._meta  # noqa: SLF001 - Django's documented way to its fields
    columns: list[str] = []
    values: list[str] = []
    parameters: list[Any] = []
    for field in meta.concrete_fields:
        if field.generated or (field.primary_key and field.attname not in expressions):
            continue
        assert field.column, "a concrete field has one"
        columns.append(connection.ops.quote_name(field.column))
        if field.attname in expressions:
            values.append(expressions[field.attname].replace("%", "%%"))
        else:
            values.append(f"%s::{field.db_type(connection)}")
            parameters.append(field.get_db_prep_save(getattr(row, field.attname), connection))
    names, made = ", ".join(columns), ", ".join(values)
    with connection.cursor() as cursor:
        sql = f"INSERT INTO {meta.db_table} ({names}) SELECT {made} FROM generate_series(%s, %s) AS n"
        cursor.execute(sql, [*parameters, first, end - 1])

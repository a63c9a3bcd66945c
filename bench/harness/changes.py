"""Changes with a marker that viewers recognise, one kind for each page; and the load meanwhile."""

import itertools
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self
from uuid import UUID

import msgspec
from django.utils import timezone

from bench.harness.full_queue import QUEUES, Size, beat, job_id, task_id
from dalston_queue.broker import Broker, Consumer
from dalston_queue.broker.protocol.messages import Completed, TaskMessage
from dalston_queue.models import DeadLetter, Job, Task

EVERY_S = 1.7
"""Between two changes of one kind: a later one must not replace one that has not been sent yet."""
BEAT_S = 5.0
CHURN_S = 0.05


@dataclass(frozen=True)
class Kind:
    name: str
    paths: tuple[str, ...]
    make: Callable[[str], object]


@dataclass
class Made:
    """Time and kind of each change, by its number."""

    at: dict[str, float] = field(default_factory=dict)
    kind_of: dict[str, Kind] = field(default_factory=dict)


def kinds_of_change(broker: Broker, size: Size) -> list[Kind]:
    newest = Task.objects.order_by("-id").values_list("pk", flat=True)[0]
    return [
        Kind("a task's row in Postgres", ("/ws/overview/",), lambda marker: _fail(newest, marker)),
        Kind(
            "a node's beat",
            ("/ws/overview/", "/ws/nodes/", "/ws/nodes/node-00/"),
            lambda marker: beat(broker, 0, size, marker),
        ),
        Kind("progress of a pending entry", ("/ws/queues/transcribe/",), lambda marker: _progress(broker, marker)),
        Kind("a job's row in Postgres", ("/ws/jobs/",), _rename),
        Kind("a new dead letter", ("/ws/dead-letters/",), _dead_letter),
    ]


def _fail(newest: UUID, marker: str) -> None:
    Task.objects.filter(pk=newest).update(error=marker)


def _rename(marker: str) -> None:
    newest = Job.objects.order_by("-id").values_list("pk", flat=True)[:1]
    Job.objects.filter(pk__in=newest).update(name=marker)


def _dead_letter(marker: str) -> None:
    DeadLetter.objects.create(
        queue="transcribe", task_type="transcribe", cause="error", attempt=1, error=marker, fingerprint=marker[-16:],
        created_at=timezone.now(),
    )  # fmt: skip


def _progress(broker: Broker, marker: str) -> None:
    """Of the entry that is first on the page. Its progress is the last field of its record."""
    [shard] = broker.shards
    key, task = shard.keys.tasks(QUEUES[0]), task_id(0)
    progress = msgspec.json.encode({"fraction": random.random(), "message": marker})
    record = shard.client.hget(key, task)
    assert isinstance(record, bytes)
    shard.client.hset(key, task, record.rpartition(b"\t")[0] + b"\t" + progress)


def make_changes(kinds: list[Kind], seconds: float) -> Made:
    """One kind after the other, at random times, independent of the dashboard's ticks."""
    made, number, end = Made(), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        for kind in kinds:
            time.sleep(EVERY_S / len(kinds) * random.uniform(0.7, 1.3))
            marker = f"marker-{number}"
            kind.make(marker)
            made.at[str(number)], made.kind_of[str(number)] = time.monotonic(), kind
            number += 1
    return made


class Load:
    """Meanwhile every node beats each five seconds, and an engine claims and settles 20 tasks a second."""

    def __init__(self, broker: Broker, size: Size) -> None:
        self._broker, self._size = broker, size
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._beat), threading.Thread(target=self._churn)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _beat(self) -> None:
        nodes = self._size.nodes
        for turn in itertools.count():
            if self._stop.wait(BEAT_S / nodes):
                return
            if turn % nodes:  # node 0 beats with the markers
                beat(self._broker, turn % nodes, self._size)

    def _churn(self) -> None:
        consumer = Consumer(self._broker, "node-00.churn.0.boot", ["churn"], capacity=1)
        consumer.open()
        number = 10**9
        while not self._stop.wait(CHURN_S):
            number += 1
            message = TaskMessage(
                task_id=task_id(number), job_id=job_id(number), queue="churn", task_type="churn", attempt=1
            )
            self._broker.append([message])
            for task in consumer.claim():
                task.settle(Completed({}))

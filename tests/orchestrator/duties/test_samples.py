"""The samples of a minute: their numbers, that a minute is stored once, and that they are kept for a day."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.broker import Broker
from dalston_queue.broker.nodes.registry import NodeInfo
from dalston_queue.broker.protocol.types import NodeState
from dalston_queue.jobs.queries import waits
from dalston_queue.jobs.queries.ended import _RETRIED
from dalston_queue.jobs.queries.waits import age_distribution
from dalston_queue.models import DeadLetter, Sample, Task, TaskEvent
from dalston_queue.orchestrator.duties.reconciler import reconcile
from dalston_queue.orchestrator.duties.samples import RETENTION, SETTLED, take_samples
from tests.broker.conftest import message
from tests.jobs import make
from tests.orchestrator.support import Steps

pytestmark = pytest.mark.django_db


def test_a_minute_is_sampled_once_and_a_day_is_kept(broker: Broker) -> None:
    now = timezone.now()
    minute = now.replace(second=0, microsecond=0)
    Sample.objects.create(kind="lane", name="old", at=minute - RETENTION - timedelta(minutes=1), numbers={})
    DeadLetter.objects.create(
        queue="echo", cause="error", fingerprint="f", created_at=minute - timedelta(seconds=1), attempt=1
    )
    broker.append([message()])
    take_samples(now)
    take_samples(now)
    lane = Sample.objects.get(kind="lane")
    assert (lane.at, lane.numbers) == (minute, {"waiting": 1, "running": 0, "added": 1, "removed": 0})
    queue = Sample.objects.get(kind="queue")
    read_at = queue.numbers.pop("at_ms")
    assert (queue.at, queue.name, queue.numbers) == (
        minute,
        "echo",
        {"waiting": 1, "ran": 0, "completed": 0, "failed": 0},
    )
    assert abs(read_at - broker.snapshot().at_ms) < 60_000, "when the counters were read, not the minute's beginning"
    dead_letters = Sample.objects.get(kind="dead_letters")
    assert dead_letters.numbers == {"made": 1, "open": 1}
    broker.reset_queue("echo")


@pytest.mark.keeps_keys
def test_waiting_tasks_are_those_in_the_window_and_those_in_postgres(
    broker: Broker, steps: Steps, settings: Settings
) -> None:
    settings.DALSTON_WINDOW = 2
    for _ in range(5):
        make.single()
    steps.poll()
    broker.reset_queue("echo")  # the lane that Redis does not know has a sample as well
    take_samples(timezone.now() - timedelta(minutes=1))
    assert [sample.numbers["waiting"] for sample in Sample.objects.filter(kind="lane")] == [3]
    reconcile()
    steps.poll()
    take_samples(timezone.now())
    newest = Sample.objects.order_by("-at")
    assert newest.filter(kind="lane")[0].numbers["waiting"] == 5
    assert newest.filter(kind="queue")[0].numbers["waiting"] == 5
    broker.reset_queue("echo")


def test_a_lane_of_many_long_capabilities_is_sampled_under_a_name_that_fits(broker: Broker) -> None:
    """Any client may ask for 16: one lane that can't be stored would end the samples of all."""
    needed = [f"c{number:02}{'x' * 38}" for number in range(16)]
    lanes = (needed, [*needed[:15], "zz"])
    broker.append([message(f"t{n}", required_capabilities=lane) for n, lane in enumerate(lanes)])
    take_samples(timezone.now())
    found = broker.snapshot().queues[0].lanes
    assert {sample.name for sample in Sample.objects.filter(kind="lane")} == {lane.name for lane in found if lane.added}
    assert len({lane.name for lane in found}) == len(found)
    broker.reset_queue("echo")


def test_gpus_of_nodes_that_beat_are_sampled(broker: Broker) -> None:
    device = {"uuid": "GPU-1", "used_mib": 100, "utilisation": 30, "temperature": 60}
    for name in ("node-a", "node-b"):
        broker.registry.beat_node(name, NodeState.ACTIVE, [], {"gpus": {"devices": [device]}})
    broker.registry.condemn_node(NodeInfo(node_id="node-b", state=NodeState.ACTIVE))
    take_samples(timezone.now())
    [sample] = Sample.objects.filter(kind="gpu")
    assert sample.name == "node-a GPU-1"
    assert sample.numbers == {"used_mib": 100, "utilisation": 30, "temperature": 60}
    broker.registry.forget(node_ids=["node-a", "node-b"])


def test_what_ended_in_the_minute_is_counted_by_queue_with_its_wait(broker: Broker) -> None:
    minute = timezone.now().replace(second=0, microsecond=0)
    end = minute - SETTLED

    def ended(status: str, waited_s: float, at: datetime) -> None:
        task, started = make.single("echo"), at - timedelta(seconds=5)
        times = {"first_enqueued_at": started - timedelta(seconds=waited_s), "started_at": started, "finished_at": at}
        Task.objects.filter(pk=task.pk).update(status=status, **times)

    for waited_s in (1, 2, 9):
        ended("completed", waited_s, end - timedelta(seconds=30))
    ended("dead_letter", 4, end - timedelta(seconds=59))
    ended("cancelled", 3, end - timedelta(seconds=1))
    ended("completed", 500, end)  # of the next minute
    ended("completed", 500, end - timedelta(minutes=1, seconds=1))  # of the last one
    broker.append([message(), message(queue="idle")])
    take_samples(minute)
    found = {sample.name: sample.numbers for sample in Sample.objects.filter(kind="queue")}
    assert {name: found["echo"][name] for name in ("completed", "failed", "median_wait_s")} == {
        "completed": 3, "failed": 1, "median_wait_s": 3.0,
    }  # fmt: skip
    assert found["echo"]["p95_wait_s"] == pytest.approx(8.0)
    assert (found["idle"]["completed"], "median_wait_s" in found["idle"]) == (0, False)
    broker.reset_queue("echo")
    broker.reset_queue("idle")


def test_what_ended_in_all_queues_is_one_sample_with_its_percentiles_and_retries(broker: Broker) -> None:
    minute = timezone.now().replace(second=0, microsecond=0)
    at = minute - SETTLED - timedelta(seconds=30)
    for number in range(1, 101):
        task = make.single("echo" if number % 2 else "other")
        started = at - timedelta(seconds=number)
        times = {"first_enqueued_at": started - timedelta(seconds=2 * number), "started_at": started, "finished_at": at}
        Task.objects.filter(pk=task.pk).update(status="dead_letter" if number == 100 else "completed", **times)
    long_ago = at - timedelta(minutes=5)
    for cause, when in (("timeout", at), ("timeout", at), ("of a newer engine", at), ("error", long_ago)):
        TaskEvent.objects.create(
            task=task, transition="retry", from_status="running", to_status="ready", attempt=2, deliveries=0,
            cause=cause, at=when,
        )  # fmt: skip
    take_samples(minute)
    numbers = Sample.objects.get(kind="tasks", name="all").numbers
    assert (numbers["completed"], numbers["failed"]) == (99, 1)
    assert [numbers[f"wait_{share}"] for share in ("p50", "p95", "p99")] == pytest.approx([101, 190.1, 198.02])
    assert [numbers[f"run_{share}"] for share in ("p50", "p95", "p99")] == pytest.approx([50, 94.1, 98.02])
    assert {name: number for name, number in numbers.items() if name.startswith("retry_")} == {
        "retry_timeout": 2, "retry_error": 1,
    }  # fmt: skip


def test_the_ages_of_what_waits_are_counted_in_steps(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    now = timezone.now()
    for age in (1, 9, 30, 500, 601, 3599, 4000):
        task = make.single("echo")
        make.move("make_ready", [task])
        Task.objects.filter(pk=task.pk).update(first_enqueued_at=now - timedelta(seconds=age))
    found = age_distribution(now)
    assert found == {"age_10": 2, "age_60": 1, "age_600": 1, "age_3600": 2, "age_more": 1, "age_unread": 0}
    monkeypatch.setattr(waits, "OLDEST", 2)
    found = age_distribution(now)
    assert found == {"age_10": 0, "age_60": 0, "age_600": 0, "age_3600": 1, "age_more": 1, "age_unread": 5}


def test_retries_are_found_by_their_index() -> None:
    with connection.cursor() as cursor:
        now = timezone.now()
        cursor.execute("SET LOCAL enable_seqscan = off")  # a table of a few rows, as here, is read without an index
        cursor.execute("EXPLAIN " + _RETRIED, [now - timedelta(minutes=1), now, 100])
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "event_retries" in plan, plan

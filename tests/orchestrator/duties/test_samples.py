"""The samples of a minute: their numbers, that a minute is stored once, and that they are kept for a day."""

from datetime import datetime, timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.broker import Broker
from dalston_queue.broker.nodes.registry import NodeInfo
from dalston_queue.broker.protocol.types import NodeState
from dalston_queue.models import DeadLetter, Sample, Task
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

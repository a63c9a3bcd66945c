"""/queue/stats and /streams: exact numbers under the documented names."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.test import Client
from django.utils import timezone

from dalston_queue.broker import Broker, Consumer
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.messages import TaskMessage
from dalston_queue.broker.protocol.types import EngineState, NodeState, Priority
from dalston_queue.models import OperatorAction, StagePause, Task, TaskEvent
from tests.api.conftest import Api
from tests.jobs import make
from tests.orchestrator.support import Steps


def append(broker: Broker, count: int, priority: Priority = Priority.MEDIUM) -> None:
    broker.append(
        [
            TaskMessage(
                task_id=f"{priority}-{n}", job_id="j", queue="echo", task_type="echo", attempt=1, priority=priority
            )
            for n in range(count)
        ]
    )


def claim(broker: Broker, count: int) -> None:
    consumer = Consumer(broker, "n.demo.0.b", ["echo"], capacity=count)
    consumer.open()
    assert len(consumer.exchange([], count).claimed) == count


def test_stats_count_queues_workers_throughput_and_lanes(api: Api, broker: Broker) -> None:
    append(broker, 3, Priority.HIGH)
    append(broker, 2, Priority.LOW)
    beats = [
        EngineBeat(engine_id="n.demo.0.b", state=EngineState.READY, queues=("echo",), capacity=4),
        EngineBeat(engine_id="n.demo.1.b", state=EngineState.DRAINING, queues=("echo",), capacity=2),
    ]
    broker.registry.beat_node("n", NodeState.ACTIVE, beats)
    claim(broker, 1)
    for status in ("completed", "dead_letter", "completed"):
        api.post("/tasks", {"task_type": "echo"})
        Task.objects.filter(status="pending").update(status=status, finished_at=timezone.now())
    Task.objects.filter(pk=Task.objects.first().pk).update(finished_at=timezone.now() - timedelta(hours=1))

    stats = api.get("/queue/stats").json()

    assert {name: depth["depth"] for name, depth in stats["queues"].items()} == {"high": 2, "medium": 0, "low": 2}
    assert stats["queues"]["medium"]["oldest_age_seconds"] is None
    assert stats["queues"]["high"]["oldest_age_seconds"] >= 0
    counts = {"active": 1, "draining": 1, "unhealthy": 0, "dead": 0}
    assert stats["workers"] == {**counts, "total_capacity": 6, "used_capacity": 1}
    throughput = {"completed_last_minute": 1, "failed_last_minute": 1, "avg_task_duration_seconds": None}
    assert stats["throughput"] == throughput, "these never started"
    lane = next(lane for lane in stats["lanes"] if lane["tier"] == "high")
    assert (lane["queue"], lane["lag"], lane["pending"], lane["length"]) == ("echo", 2, 1, 3)


def test_stats_have_the_ages_of_waiting_tasks_durations_and_recoveries(api: Api, broker: Broker) -> None:
    now = timezone.now()
    tasks = [make.single() for _ in range(20)]
    Steps(broker).poll()
    for number, task in enumerate(tasks, 1):
        Task.objects.filter(pk=task.pk).update(first_enqueued_at=now - timedelta(seconds=100 * number))
    done = make.single(priority="high")
    started = now - timedelta(seconds=8)
    Task.objects.filter(pk=done.pk).update(status="completed", started_at=started, finished_at=now)
    for transition, cause, minutes in (
        ("recover", "node_lost", 1), ("recover", "engine_lost", 59), ("recover", "node_lost", 61),
        ("recover", "drained", 1), ("retry", "timeout", 1), ("retry", "error", 1),
    ):  # fmt: skip
        TaskEvent.objects.create(
            task=done, transition=transition, from_status="running", to_status="queued", attempt=1, deliveries=0,
            cause=cause, at=now - timedelta(minutes=minutes),
        )  # fmt: skip
    stats = api.get("/queue/stats").json()
    medium = stats["queues"]["medium"]
    assert (round(medium["p50_age_seconds"], -2), round(medium["p95_age_seconds"], -2)) == (1000, 1900)
    assert stats["queues"]["low"]["p50_age_seconds"] is None
    assert stats["throughput"]["avg_task_duration_seconds"] == 8.0
    assert stats["recovery"] == {"recovered_last_hour": 2, "timeouts_last_hour": 1}
    assert (stats["ageing"]["threshold_seconds"], stats["ageing"]["tasks_waiting_over_threshold"]) == (1200, 9)
    assert stats["ageing"]["oldest_queued_task_age_seconds"] > 0


def test_stats_count_unhealthy_workers(api: Api, broker: Broker) -> None:
    beats = [EngineBeat(engine_id="n.demo.0.b", state=EngineState.UNHEALTHY, queues=("echo",), capacity=4)]
    broker.registry.beat_node("n", NodeState.ACTIVE, beats)
    workers = api.get("/queue/stats").json()["workers"]
    assert (workers["active"], workers["unhealthy"], workers["total_capacity"]) == (0, 1, 0)


def test_waiting_is_what_the_windows_hold_and_what_waits_in_postgres(api: Api, broker: Broker, settings: Any) -> None:
    settings.DALSTON_WINDOW = 2
    for _ in range(5):
        make.single()
    make.single(priority="high", required_capabilities=("gpu",))
    Steps(broker).poll()

    stats = api.get("/queue/stats").json()
    assert {name: depth["depth"] for name, depth in stats["queues"].items()} == {"high": 1, "medium": 5, "low": 0}
    lane = next(lane for lane in stats["lanes"] if lane["tier"] == "medium" and not lane["capabilities"])
    assert (lane["waiting"], lane["ready"], lane["lag"]) == (5, 3, 2)
    [stream] = api.get("/streams").json()
    assert (stream["waiting"], stream["ready"]) == (6, 3)

    broker.reset_queue("echo")  # Redis does not know the queue, and its tasks still wait
    [stream] = api.get("/streams").json()
    assert (stream["queue"], stream["waiting"], stream["ready"], stream["running"]) == ("echo", 3, 3, 0)
    assert stream["oldest_age_seconds"] >= 0


def test_a_queue_that_only_postgres_knows_can_be_paused_and_listed(
    broker: Broker, settings: Any, token_for: Callable[..., str]
) -> None:
    settings.DALSTON_WINDOW = 1
    for _ in range(2):
        make.single()
    Steps(broker).poll()
    broker.reset_queue("echo")
    Task.objects.filter(status="queued").update(status="cancelled", finished_at=timezone.now())
    operator = Api(token_for("operate", "read"))
    assert operator.get("/streams/echo/pending").json()["total"] == 0
    assert operator.post("/streams/echo/pause", {"reason": "new driver"}).status_code == 200


def test_no_more_slots_are_in_use_than_there_are(api: Api, broker: Broker) -> None:
    """An engine may prefetch."""
    append(broker, 3, Priority.HIGH)
    beat = EngineBeat(engine_id="n.demo.0.b", state=EngineState.READY, queues=("echo",), capacity=1)
    broker.registry.beat_node("n", NodeState.ACTIVE, [beat])
    claim(broker, 3)
    workers = api.get("/queue/stats").json()["workers"]
    assert (workers["total_capacity"], workers["used_capacity"]) == (1, 1)


def test_streams_show_each_queue(api: Api, broker: Broker) -> None:
    append(broker, 2)
    [stream] = api.get("/streams").json()
    assert (stream["queue"], stream["waiting"], stream["running"], stream["paused"]) == ("echo", 2, 0, False)
    assert stream["counters"]["appended"] == 2


def test_pending_entries_are_paged(api: Api, broker: Broker, token_for: Callable[..., str]) -> None:
    append(broker, 5)
    claim(broker, 5)
    operator = Api(token_for("operate"))
    page = operator.get("/streams/echo/pending?limit=2&offset=1").json()
    assert page["total"] == 5
    assert [item["worker_id"] for item in page["items"]] == ["n.demo.0.b"] * 2
    assert page["items"][0]["overdue_seconds"] is None
    assert operator.get("/streams/nosuch/pending").status_code == 404
    assert api.get("/streams/echo/pending").status_code == 403


def test_pausing_is_audited_and_says_whether_it_changed_anything(
    broker: Broker, token_for: Callable[..., str], admin_client: Client
) -> None:
    append(broker, 1)
    operator = Api(token_for("operate"))
    assert operator.post("/streams/echo/pause", {"reason": "driver update"}).json()["changed"] is True
    assert operator.post("/streams/echo/pause").json()["changed"] is False
    assert operator.post("/streams/echo/resume").json() == {
        "queue": "echo", "paused": False, "changed": True, "engines_notified": True,
    }  # fmt: skip
    assert operator.post("/streams/Echo/pause").status_code == 422
    first = OperatorAction.objects.order_by("id")[0]
    assert (first.action, first.target, first.reason) == ("stage.pause", "echo", "driver update")


def test_an_unused_queue_is_not_paused_by_a_typo(broker: Broker, token_for: Callable[..., str]) -> None:
    append(broker, 1)
    operator = Api(token_for("operate"))
    for action in ("pause", "resume"):
        slip = operator.post(f"/streams/ecoh/{action}")
        assert (slip.status_code, slip.json()["code"]) == (404, "not_found")
        assert "Did you mean echo?" in slip.json()["detail"]
    assert not OperatorAction.objects.exists() and not StagePause.objects.exists()
    assert operator.post("/streams/later/pause", {"new": True}).json()["changed"] is True
    assert operator.post("/streams/later/pause").json()["changed"] is False, "it is known by now"
    assert operator.post("/streams/later/resume").json()["changed"] is True
    again = operator.post("/streams/later/resume")
    assert (again.status_code, again.json()["changed"]) == (200, False), "to resume is safe to repeat"
    assert operator.post("/streams/later/pause").status_code == 404, "it is still not used"

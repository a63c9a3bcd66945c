"""Many queues: what is shown of them is bounded, and those that nothing uses are forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.broker import Broker
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.types import Appended, EngineState
from dalston_queue.dashboard.overview.read import latest, with_queue
from dalston_queue.jobs.operator.cancel import cancel_job
from dalston_queue.jobs.operator.pause import pause
from dalston_queue.jobs.order.refill import refill
from dalston_queue.models import Lane, Sample
from dalston_queue.orchestrator.duties.lanes import forget_unused
from dalston_queue.orchestrator.duties.samples import take_samples
from tests.broker.conftest import MakeEngine, message
from tests.jobs.make import NOW, claim, single

pytestmark = [pytest.mark.django_db, pytest.mark.keeps_keys]
LATER = timezone.now() + timedelta(hours=2)


@pytest.fixture(autouse=True)
def fresh_overview() -> Iterator[None]:
    latest._read_at, latest._overview = 0.0, None
    yield
    latest._read_at, latest._overview = 0.0, None


@pytest.fixture
def many(broker: Broker, settings: Settings) -> None:
    """Eight queues, of which three are shown: `q5` has three tasks, `q6` two, `q7` one."""
    settings.DALSTON_SHOWN_QUEUES = 3
    for number in range(8):
        broker.append([message(f"old-{number}", queue=f"q{number}")])
        broker.remove(f"q{number}", f"old-{number}")
    for name, count in (("q5", 3), ("q6", 2), ("q7", 1)):
        claim(*(single(name).job for _ in range(count)))
    refill(None, NOW)


def test_the_overview_shows_the_busiest_and_counts_the_rest(
    many: None, admin_client: Client, settings: Settings
) -> None:
    settings.DALSTON_SHOWN_QUEUES = 2
    text = admin_client.get("/").content.decode()
    rows = text[text.index('<tbody id="lanes">') :]
    assert rows[: rows.index("</tbody>")].count('href="/queues/q') == 2
    assert "6 more have 1 waiting and 0 running" in text
    assert "Needs attention: 6 waiting" in text or "Unhealthy: 6 waiting" in text, "the headline counts all of them"


def test_the_rest_has_pages(many: None, admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dalston_queue.dashboard.queue.views.PAGE", 5)
    first = admin_client.get("/queues/?after=").content.decode()
    assert [f"/queues/q{number}/" in first for number in range(8)] == [True] * 5 + [False] * 3
    second = admin_client.get("/queues/?after=q4").content.decode()
    assert [f"/queues/q{number}/" in second for number in range(8)] == [False] * 5 + [True] * 3
    assert admin_client.get("/queues/q0/").status_code == 200, "and each its own"
    assert admin_client.get("/queues/no-such/").status_code == 404
    assert "No further queue" in admin_client.get("/queues/?after=zz").content.decode()


def test_a_queue_that_is_not_shown_can_be_read(many: None) -> None:
    redis = with_queue("q0").redis
    assert redis is not None
    assert [stats.queue for stats in redis.snapshot.queues] == ["q5", "q6", "q7", "q0"]


def test_metrics_and_samples_are_those_of_the_busiest(many: None, client: Client) -> None:
    text = client.get("/metrics").content.decode()
    assert 'stage="q5"' in text
    assert 'stage="q0"' not in text
    take_samples(timezone.now())
    assert set(Sample.objects.filter(kind="queue").values_list("name", flat=True)) == {"q5", "q6", "q7"}


def test_an_idle_queue_that_engines_serve_is_not_hidden_by_busy_ones_without_engines(
    many: None, broker: Broker
) -> None:
    """Else a client with many queues could hide its counters, and silence the alerts on them."""
    for node, queue in (("gpu", "q0"), ("http", "q1")):
        beat = EngineBeat(engine_id=f"{node}.demo.0.b", state=EngineState.READY, queues=(queue,), capacity=1)
        broker.registry.beat_engine(beat, node)
    redis = latest.get().redis
    assert redis is not None
    assert [stats.queue for stats in redis.snapshot.queues] == ["q0", "q5", "q6"]


def test_the_api_pages_through_all_of_them(many: None, admin_client: Client, admin_user: User) -> None:
    stats = admin_client.get("/api/v1/queue/stats").json()
    assert {lane["queue"] for lane in stats["lanes"]} == {"q5", "q6", "q7"}
    assert (stats["more_queues"], stats["more_waiting"]) == (5, 0)
    page = admin_client.get("/api/v1/streams?limit=3").json()
    assert [each["queue"] for each in page] == ["q0", "q1", "q2"]
    assert [each["queue"] for each in admin_client.get("/api/v1/streams?after=q5").json()] == ["q6", "q7"]


def test_what_nothing_uses_is_forgotten(broker: Broker, engine: MakeEngine) -> None:
    done = [single(queue) for queue in ("idle", "paused", "served", "busy")]
    done += [single(queue, required_capabilities=("gpu",)) for queue in ("idle", "busy")]
    for made in done:
        cancel_job(made.job_id, timezone.now())
    single("later", scheduled_at=LATER)
    Lane.objects.filter(queue__in=["idle", "paused", "served"]).update(used_at=NOW)
    broker.append([message("a", queue="busy"), message("b", queue="idle", required_capabilities=("gpu",))])
    broker.append([message("c", queue="unknown")])
    for task, queue in (("b", "idle"), ("c", "unknown")):
        broker.remove(queue, task)
    pause("paused", timezone.now(), actor="me", reason="test")
    served = engine("served.engine.1.boot", queues=("served",))
    forget_unused(timezone.now())
    assert "unknown" in Lane.objects.values_list("name", flat=True), "found in Redis, it begins to age"
    assert "idle" not in broker.queues()
    Lane.objects.update(used_at=NOW)
    forget_unused(timezone.now())
    assert set(Lane.objects.values_list("name", flat=True)) == {"busy", "later", "paused", "served"}
    assert set(broker.queues()) >= {"busy"}
    assert not {"idle", "unknown"} & set(broker.queues())
    served.release()


def test_a_forgotten_queue_is_made_again_by_its_next_task(broker: Broker) -> None:
    broker.append([message("a", queue="echo")])
    assert not broker.forget_lane("echo"), "it has a task"
    assert broker.queues() == ["echo"]
    broker.remove("echo", "a")
    assert broker.forget_lane("echo")
    assert broker.forget_lane("echo"), "twice is fine"
    assert broker.queues() == []
    assert broker.append([message("b", queue="echo")]) == [Appended.ADDED]
    assert broker.queues() == ["echo"]

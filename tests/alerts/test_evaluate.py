"""Alerts on a real system: stored, shown and ended."""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.alerts import evaluate
from dalston_queue.alerts.decide import decide
from dalston_queue.alerts.facts import Facts, read_facts
from dalston_queue.broker import Broker
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.types import EngineState
from dalston_queue.models import AlertState, Duty, Sample
from dalston_queue.orchestrator.duties.housekeeping import delete_expired
from dalston_queue.orchestrator.duties.samples import take_samples
from tests.alerts.support import deadly, firing, run, standing
from tests.broker.conftest import message
from tests.orchestrator.processes import Orchestrators
from tests.support import Spawned, wait_until

pytestmark = [pytest.mark.django_db, pytest.mark.keeps_keys, pytest.mark.usefixtures("broker")]


def test_an_alert_begins_fires_is_shown_and_ends(viewer: Client, broker: Broker, settings: Settings) -> None:
    settings.DALSTON_ALERT_NO_WORKERS_S = 20
    run()
    row = standing()["DalstonNoActiveWorkers"]
    assert row.fired_at is None
    assert "No alert fires" in viewer.get("/").content.decode()
    run(after_s=21)
    text = viewer.get("/").content.decode()
    assert "No engine is ready: nothing can run." in text
    assert "/alerts/no-active-workers/" in text
    runbook = viewer.get("/alerts/no-active-workers/").content.decode()
    assert "DALSTON_ALERT_NO_WORKERS_S" in runbook
    assert "below 1 for 20 s" in runbook
    broker.registry.beat_engine(EngineBeat(engine_id="lone.x.0.b", state=EngineState.READY, queues=("echo",)))
    run(after_s=30)
    assert "DalstonNoActiveWorkers" in standing(), "it was quiet for a moment only"
    run(after_s=90)
    assert "DalstonNoActiveWorkers" not in standing()
    assert AlertState.objects.get(name="DalstonNoActiveWorkers").ended_at is not None
    assert ">ended</span>" in viewer.get("/alerts/").content.decode()


def test_a_redis_that_is_away_is_noticed_and_what_only_it_knows_goes_on(settings: Settings) -> None:
    settings.DALSTON_ALERT_NO_WORKERS_S = 0
    run()
    address, settings.REDIS_URL = settings.REDIS_URL, "redis://127.0.0.1:1/0"
    run(after_s=15)
    assert standing()["DalstonRedisAway"].fired_at is None, "it may be a failover"
    run(after_s=80)
    found = standing()
    assert found["DalstonRedisAway"].fired_at is not None
    assert "DalstonNoActiveWorkers" in found
    assert "DalstonPostgresAway" not in found
    settings.REDIS_URL = address
    run(after_s=200)
    assert "DalstonRedisAway" not in standing()


def test_the_threshold_is_the_setting(settings: Settings) -> None:
    deadly(3)
    run()
    assert "DalstonDeadLettersOfOneCause" not in standing()
    settings.DALSTON_ALERT_DEAD_LETTERS_OF_CAUSE = 2
    run(after_s=1)
    row = standing()["DalstonDeadLettersOfOneCause"]
    assert (row.subject, row.value) == ("rejected", 3)
    assert row.text == "Open dead letters of one day with the cause rejected: 3."


def test_what_grows_is_measured_between_a_sample_and_now(broker: Broker) -> None:
    broker.append([message()])
    minute = timezone.now()
    take_samples(minute)
    broker.home.command("HINCRBY", broker.home.keys.counters("echo"), "refused", 30)
    for sample in Sample.objects.filter(kind="counters"):  # it was taken two minutes ago
        sample.numbers["at_ms"] -= 120_000
        sample.save()
    facts = read_facts(minute)
    assert facts.per_minute("refused") == pytest.approx(15, rel=0.1)
    run()
    assert standing()["DalstonResultsRefused"].value == pytest.approx(15, rel=0.1)


def test_one_process_at_a_time_evaluates_and_not_twice_in_ten_seconds() -> None:
    now = timezone.now()
    assert evaluate.run(now, "a")
    assert not evaluate.run(now + timedelta(seconds=5), "b")
    assert evaluate.run(now + timedelta(seconds=11), "b")
    assert Duty.objects.get(name=evaluate.DUTY).holder == "b"


@pytest.mark.django_db(transaction=True)
def test_of_two_processes_that_read_at_once_one_evaluates(monkeypatch: pytest.MonkeyPatch) -> None:
    now, others = timezone.now(), []

    def meanwhile() -> None:
        others.append(evaluate.run(now, "b"))
        connection.close()

    def slow(at: datetime) -> Facts:
        facts = read_facts(at)
        if not others:
            others.append(False)
            other = threading.Thread(target=meanwhile)
            other.start()
            other.join()
        return facts

    monkeypatch.setattr(evaluate, "read_facts", slow)
    assert [evaluate.run(now, "a"), others[-1]].count(True) == 1
    assert Duty.objects.get(name=evaluate.DUTY).failures == 0


_POOLED = """
import threading, django
django.setup()
from django.db import connection
from django.utils import timezone
from dalston_queue.alerts import evaluate

def hold(taken, stop):
    connection.ensure_connection()
    taken.set()
    stop.wait()
    connection.close()

def busy(now, read=evaluate.read_facts):
    facts = read(now)
    thread.start()
    taken.wait()
    return facts

taken, stop = threading.Event(), threading.Event()
thread = threading.Thread(target=hold, args=(taken, stop))
evaluate.read_facts = busy
print("evaluated", evaluate.run(timezone.now(), "pooled"), flush=True)
stop.set()
thread.join()
connection.close()
threading.Event().wait()
"""


@pytest.mark.django_db(transaction=True)
def test_no_lock_stays_on_a_pooled_connection(
    tmp_path: Path, spawn: Callable[..., Spawned], process_env: dict[str, str], database_url: str
) -> None:
    script = tmp_path / "pooled.py"
    script.write_text(_POOLED)
    env = {**process_env, "DATABASE_URL": database_url, "DALSTON_DB_POOL_SIZE": "2"}
    process = spawn(str(script), env={**env, "DJANGO_SETTINGS_MODULE": "dalston_site.settings"})
    process.wait_for("evaluated True")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database"
            " WHERE locktype = 'advisory' AND datname = current_database()"
        )
        assert cursor.fetchone() == (0,)
    assert evaluate.run(timezone.now() + timedelta(minutes=1), "next")


def test_an_evaluation_overwrites_no_notification_that_is_sent_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    [row] = firing("rejected", name="DalstonDeadLettersOfOneCause")
    deadly(60)

    def while_one_is_sent(*state: Any) -> Any:
        AlertState.objects.filter(pk=row.pk).update(called="firing")
        return decide(*state)

    monkeypatch.setattr(evaluate, "decide", while_one_is_sent)
    assert evaluate.run(timezone.now(), "test")
    row.refresh_from_db()
    assert (row.value, row.called) == (60, "firing")


def test_an_alert_of_many_queues_hides_no_other(viewer: Client) -> None:
    firing(*(f"q{number} medium" for number in range(60)), name="DalstonQueueStalled", severity="critical")
    [other] = firing("gpu-1", name="DalstonDiskFilling")
    AlertState.objects.filter(pk=other.pk).update(fired_at=timezone.now() - timedelta(days=1))
    for page in ("/", "/alerts/"):
        text = viewer.get(page).content.decode()
        assert f'id="alert-{other.pk}' in text, page
        assert text.count('href="/alerts/queue-stalled/"') >= 3 and "q59 medium" not in text
        assert "nd 57 more" in text
    assert "q49 medium" in viewer.get("/alerts/queue-stalled/").content.decode()


def test_an_alert_of_an_earlier_version_ends() -> None:
    now = timezone.now()
    old = {"severity": "warning", "value": 1, "text": "x", "since": now, "held_at": now, "fired_at": now}
    AlertState.objects.create(name="DalstonGone", **old)
    run()
    assert AlertState.objects.get(name="DalstonGone").ended_at is not None


def test_ended_alerts_expire_with_dead_letters(settings: Settings) -> None:
    def row(ended: datetime | None, name: str) -> None:
        AlertState.objects.create(
            name=name, severity="warning", value=1, text="x", since=long_ago, held_at=long_ago, fired_at=long_ago,
            ended_at=ended,
        )  # fmt: skip

    now = timezone.now()
    long_ago = now - timedelta(days=40)
    row(long_ago, "old")
    row(now, "new")
    row(None, "standing")
    delete_expired(now)
    assert {each.name for each in AlertState.objects.all()} == {"new", "standing"}


@pytest.mark.django_db(transaction=True)
def test_an_orchestrator_evaluates(orchestrators: Orchestrators) -> None:
    deadly(3, "timeout")
    process = orchestrators.start(DALSTON_ALERT_DEAD_LETTERS_OF_CAUSE="2")
    wait_until(
        lambda: AlertState.objects.filter(name="DalstonDeadLettersOfOneCause", subject="timeout").exists(),
        what=lambda: process.output,
    )
    process.stop()

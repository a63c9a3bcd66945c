"""Housekeeping: due duties run under one leader and are recorded; a failing duty is shown and run again."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.broker import Broker, EventReader
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.types import EngineState, NodeState, Role
from dalston_queue.jobs.submit.spec import single_task
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import DeadLetter, Duty, Engine, IdempotencyKey, Job, Node, TaskEvent
from dalston_queue.orchestrator.duties import housekeeping
from dalston_queue.orchestrator.duties.report import Report
from dalston_queue.orchestrator.duties.run import DUTIES, DutySpec, due, run_due_duties, run_duty
from dalston_queue.orchestrator.leadership import Leadership
from tests.jobs import make
from tests.orchestrator.support import Steps, engine, run_to_the_end
from tests.support import wait_until


def test_the_first_time_everything_runs_and_then_only_what_is_due(broker: Broker, steps: Steps) -> None:
    assert run_due_duties() == [spec.name for spec in DUTIES]
    assert run_due_duties() == []
    rows = {row.name: row for row in Duty.objects.all()}
    assert rows.keys() == {spec.name for spec in DUTIES}
    assert {row.last_error for row in rows.values()} == {""}
    assert len({row.holder for row in rows.values()}) == 1
    in_a_minute = timezone.now() + timedelta(seconds=60)
    each_minute = ["scanner", "reconciler", "ageing", "samples", "registry", "lanes", "artifacts"]
    assert [spec.name for spec in due(in_a_minute)] == each_minute
    assert len(due(timezone.now() + timedelta(hours=1))) == len(DUTIES)


def test_while_another_process_leads_nothing_runs_here(broker: Broker, steps: Steps) -> None:
    other = Leadership(Role.HOUSEKEEPING, "other")
    assert other.keep()
    assert run_due_duties() == []
    other.resign()
    assert run_due_duties() != []


@pytest.mark.django_db
def test_a_duty_that_raises_is_recorded_shown_and_due_again() -> None:
    def broken(_now: object) -> Report:
        raise ValueError("the disk is full")

    spec = DutySpec("scanner", lambda: 60.0, broken)
    assert not run_duty(spec, "me")
    assert not run_duty(spec, "me")
    row = Duty.objects.get(name="scanner")
    assert (row.last_error, row.failures) == ("ValueError: the disk is full", 2)
    assert "scanner" not in [spec.name for spec in due(timezone.now())]
    assert "scanner" in [spec.name for spec in due(timezone.now() + timedelta(seconds=60))]

    def mended(_now: object) -> Report:
        report = Report()
        report.note("recovered", 3)
        return report

    assert run_duty(DutySpec("scanner", lambda: 60.0, mended), "me")
    row.refresh_from_db()
    assert (row.last_error, row.failures, row.repaired, row.total_repaired) == ("", 0, 3, 3)
    assert row.report == {"recovered": 3}


@pytest.mark.django_db
def test_an_hourly_duty_that_failed_is_due_again_after_a_minute() -> None:
    now = timezone.now()
    Duty.objects.create(
        name="audit", every_s=3600, last_run_at=now, duration_ms=1, repaired=0, last_error="broken", holder="me"
    )
    found = [[spec.name for spec in due(now + timedelta(seconds=after))] for after in (30, 60)]
    assert ["audit" in names for names in found] == [False, True]


@pytest.mark.django_db
def test_an_interval_of_a_second_is_kept(settings: Settings) -> None:
    settings.DALSTON_SCAN_INTERVAL_S = 1.0
    now = timezone.now()
    Duty.objects.create(name="scanner", every_s=1, last_run_at=now, duration_ms=1, repaired=0, holder="me")
    found = [[spec.name for spec in due(now + timedelta(seconds=after))] for after in (0.5, 1)]
    assert ["scanner" in names for names in found] == [False, True]


def test_nodes_and_engines_are_kept_in_rows(broker: Broker, steps: Steps) -> None:
    beat = EngineBeat(
        engine_id="n1.demo.0.b", state=EngineState.READY, queues=("echo",), capacity=4, info={"pid": 7, "version": "1"}
    )
    broker.registry.beat_node("n1", NodeState.ACTIVE, [beat], {"version": "0.1"})
    housekeeping.mirror_registry(timezone.now())
    first = Node.objects.get(id="n1").first_seen_at
    broker.registry.beat_node("n1", NodeState.DRAINING, [beat])
    housekeeping.mirror_registry(timezone.now())
    node, row = Node.objects.get(id="n1"), Engine.objects.get(id="n1.demo.0.b")
    assert (node.state, node.first_seen_at) == ("draining", first)
    assert (row.node_id, row.state, row.queues, row.capacity, row.facts["pid"]) == ("n1", "ready", ["echo"], 4, 7)
    broker.registry.forget(["n1.demo.0.b"], ["n1"])
    broker.reset_queue("echo")


def test_expired_rows_are_deleted_and_nothing_else(broker: Broker, steps: Steps) -> None:
    old, kept = make.dag(a=""), make.dag(a="")
    submit(single_task("echo"), project=make.project(), idempotency_key="old")
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    now = timezone.now()
    long_ago = now - timedelta(days=100)
    Job.objects.filter(id=old.id).update(finished_at=long_ago)
    IdempotencyKey.objects.update(expires_at=now - timedelta(seconds=1))
    dead_letter = {"queue": "echo", "cause": "error", "fingerprint": "f"}
    DeadLetter.objects.create(**dead_letter, created_at=long_ago)
    young = DeadLetter.objects.create(**dead_letter, created_at=now)
    Session.objects.create(session_key="over", expire_date=now - timedelta(seconds=1))
    Session.objects.create(session_key="open", expire_date=now + timedelta(hours=1))
    report = housekeeping.delete_expired(now)
    assert report.found == {"dead letters": 1, "idempotency keys": 1, "jobs": 1, "sessions": 1}
    assert [session.session_key for session in Session.objects.all()] == ["open"]
    assert not Job.objects.filter(id=old.id).exists()
    assert not TaskEvent.objects.filter(task__job_id=old.id).exists()
    assert Job.objects.filter(id=kept.id).exists()
    assert list(DeadLetter.objects.all()) == [young]
    assert housekeeping.delete_expired(now).found == {}


def test_the_digest_groups_dead_letters_and_counts_new_patterns(broker: Broker, steps: Steps) -> None:
    now = timezone.now()
    for hours, fingerprint, count in ((20, "a", 3), (0, "b", 1)):
        for _ in range(count):
            DeadLetter.objects.create(
                queue="echo", cause="error", error="no such file", fingerprint=fingerprint,
                created_at=now - timedelta(hours=hours),
            )  # fmt: skip
    report = housekeeping.digest_dead_letters(now)
    assert report.found == {"echo: error: no such file": 4, "new patterns in the last hour": 1}
    assert report.repaired == 0


def test_the_readers_of_dead_orchestrators_are_forgotten_and_those_with_events_kept(
    broker: Broker, steps: Steps
) -> None:
    idle = EventReader(broker, "killed-idle")
    idle.read(block_ms=0)
    busy = EventReader(broker, "killed-busy")
    broker.publish_jobs_created(["j"])
    assert len(busy.read(block_ms=0)) == 1
    assert broker.forget_idle_readers() == 0
    wait_until(lambda: broker.forget_idle_readers(idle_ms=1) >= 1, what="the idle reader is forgotten")
    heir = EventReader(broker, "heir")
    events = heir.take_over(idle_ms=0)
    assert len(events) == 1
    heir.ack(events)
    heir.close()
    busy.close()

"""Replay batches: can be undone while they wait, keep their rate, survive a kill, and leave out later dead letters."""

from datetime import timedelta
from functools import partial
from threading import Thread
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.types import Priority
from dalston_queue.jobs.errors import InvalidJob
from dalston_queue.jobs.operator.replay import Filter
from dalston_queue.jobs.operator.replay_batches import (
    Withdrawal,
    allowance,
    create_replay_batch,
    run_due_batches,
    stop,
    undo,
)
from dalston_queue.models import DeadLetter, Job, OperatorAction, ReplayBatch, Task
from tests.jobs import make
from tests.jobs.make import NOW
from tests.jobs.together import at_once
from tests.orchestrator.processes import Orchestrators
from tests.orchestrator.support import Steps, a_lock_is_awaited, engine, run_to_the_end
from tests.support import wait_until

pytestmark = pytest.mark.keeps_keys


def dead(*jobs: Job) -> list[UUID]:
    """Every ready task becomes a dead letter; returns their ids."""
    make.claim(*jobs)
    tasks = list(Task.objects.filter(job__in=jobs, status="ready").order_by("id"))
    make.move("dead_letter", tasks, cause="error", message="boom")
    Job.objects.filter(id__in=[job.id for job in jobs]).update(status="failed", finished_at=timezone.now())
    fields: dict[str, Any] = {"queue": "echo", "task_type": "echo", "cause": "error", "error": "boom"}
    dead_letters = [DeadLetter(task=task, fingerprint="f", created_at=timezone.now(), **fields) for task in tasks]
    return [dead_letter.id for dead_letter in DeadLetter.objects.bulk_create(dead_letters)]


def dead_singles(count: int) -> list[UUID]:
    return dead(*(make.single().job for _ in range(count)))


def open_dead_letters() -> int:
    return DeadLetter.objects.filter(replayed_at__isnull=True).count()


@pytest.mark.usefixtures("broker", "transactional_db")
class TestABatch:
    def test_is_refused_when_many_wait_or_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each with other changes: none of them leaves the others' dead letters out."""
        monkeypatch.setattr("dalston_queue.jobs.operator.replay_batches.MAX_LIVE", 2)
        dead_singles(1)
        make_one = partial(create_replay_batch, Filter(queue="echo"), actor="ada")
        first, _ = make_one(parameters={"n": 1}), make_one(parameters={"n": 2})
        with pytest.raises(InvalidJob, match="2 replay batches wait or run already"):
            make_one(parameters={"n": 3})
        assert make_one(parameters={"n": 1}).already_open, "one that is open already is found"
        undo(first.id, actor="ada")
        assert not make_one(parameters={"n": 3}).already_open

    def test_replays_nothing_before_its_start(self) -> None:
        dead_singles(3)
        batch = create_replay_batch(Filter(queue="echo"), actor="ada", reason="disk is back", undo_seconds=10)
        assert (batch.matched, batch.state) == (3, "waiting")
        run_due_batches(batch.starts_at - timedelta(seconds=0.1))
        assert (open_dead_letters(), Task.objects.filter(status="ready").count()) == (3, 0)
        run_due_batches(batch.starts_at)
        batch.refresh_from_db()
        assert (batch.state, batch.replayed, batch.refused) == ("done", 3, 0)
        assert (open_dead_letters(), Task.objects.filter(status="ready").count()) == (0, 3)

    def test_reads_only_the_ids_of_the_next_chunk(self) -> None:
        """A batch may have a hundred thousand: reading them all for each hundred takes longer than the replay."""
        dead_letters = dead(*(make.dag(a="", b="") for _ in range(2)))
        batch = create_replay_batch(
            dead_letters, actor="ada", rate_per_minute=60, priority=Priority.HIGH, undo_seconds=0
        )
        with CaptureQueriesContext(connection) as queries:
            run_due_batches(batch.starts_at)
        read = [query["sql"] for query in queries if '"dead_letter_ids"' in query["sql"]]
        assert len(read) == 1 and '"dead_letter_ids")[1:1]' in read[0], read
        # The sibling is replayed with it, and was asked for as well: it gets the changes in the same chunk.
        assert Task.objects.filter(status="ready", priority="high").count() == 2

    def test_leaves_out_later_dead_letters(self) -> None:
        dead_singles(1)
        batch = create_replay_batch(Filter(), actor="ada", undo_seconds=0)
        dead_singles(2)
        while run_due_batches(timezone.now() + timedelta(seconds=1)):
            pass
        batch.refresh_from_db()
        assert (batch.matched, batch.replayed, open_dead_letters()) == (1, 1, 2)

    def test_that_is_asked_for_twice_is_one_and_later_dead_letters_are_another(self) -> None:
        dead_singles(2)
        first, again = (create_replay_batch(Filter(), actor=who) for who in ("ada", "bob"))
        assert (again.id, again.already_open, again.actor) == (first.id, True, "ada")
        assert not first.already_open
        changed = create_replay_batch(Filter(), actor="bob", priority=Priority.HIGH)
        assert (changed.matched, changed.already_open) == (2, False), "other changes"
        [late] = dead_singles(1)
        more = create_replay_batch(Filter(), actor="bob")
        assert (more.dead_letter_ids, more.matched, more.already_open) == ([late], 1, False)
        undo(first.id, actor="ada")
        assert create_replay_batch(Filter(), actor="bob").matched == 2, "what was undone is free again"
        assert OperatorAction.objects.filter(action="dead_letter.replay_batch").count() == 4

    def test_that_is_asked_for_by_four_at_once_is_one(self) -> None:
        dead_singles(2)
        got = at_once(*[partial(create_replay_batch, Filter(), actor="ada")] * 4)
        assert len({batch.id for batch in got}) == ReplayBatch.objects.count() == 1
        assert [batch.already_open for batch in got].count(False) == 1

    def test_goes_on_in_chunks_and_counts_every_dead_letter_once(self) -> None:
        dead_letters = dead_singles(103)
        raw = DeadLetter.objects.create(queue="echo", cause="rejected", fingerprint="f", created_at=timezone.now())
        batch = create_replay_batch([*dead_letters, raw.id, dead_letters[0]], actor="ada", undo_seconds=0)
        assert run_due_batches(timezone.now()) is True
        batch.refresh_from_db()
        assert (batch.state, batch.handled) == ("running", 100)
        assert run_due_batches(timezone.now()) is False
        batch.refresh_from_db()
        assert (batch.state, batch.matched, batch.replayed, batch.refused) == ("done", 104, 103, 1)

    def test_keeps_its_rate_with_any_number_of_orchestrators(self) -> None:
        dead_singles(10)
        batch = create_replay_batch(Filter(), actor="ada", rate_per_minute=60, undo_seconds=0)
        for second in range(5):  # two orchestrators poll, each twice a second
            for part in (0, 0.1, 0.5, 0.6):
                assert run_due_batches(batch.starts_at + timedelta(seconds=second + part)) is False
        batch.refresh_from_db()
        assert (batch.state, batch.replayed) == ("running", 5)

    def test_gives_new_parameters_to_siblings_of_a_later_chunk(self) -> None:
        job = make.dag(a="", b="", c="")
        dead_letters = dead(job)
        create_replay_batch(
            dead_letters[:2], actor="ada", parameters={"n": 2}, priority=Priority.HIGH, rate_per_minute=1
        )
        run_due_batches(timezone.now() + timedelta(seconds=10))
        found = {task.stage: (task.status, task.parameters, task.priority) for task in Task.objects.filter(job=job)}
        assert found == {
            "a": ("ready", {"n": 2}, "high"),
            "b": ("ready", {"n": 2}, "high"),
            "c": ("ready", {}, "medium"),  # replayed with its job, unchanged
        }
        run_due_batches(timezone.now() + timedelta(seconds=80))
        batch = ReplayBatch.objects.get()
        assert (batch.state, batch.replayed, batch.already) == ("done", 1, 1)

    def test_that_fails_is_stopped_and_does_not_hold_up_the_next(self) -> None:
        dead_singles(2)
        first, second = DeadLetter.objects.order_by("id").values_list("id", flat=True)
        bad = create_replay_batch([first], actor="ada", undo_seconds=0)
        good = create_replay_batch([second], actor="ada", undo_seconds=0)
        ReplayBatch.objects.filter(id=bad.id).update(parameters={"n": "x" * 300_000})
        run_due_batches(timezone.now())
        bad.refresh_from_db()
        good.refresh_from_db()
        assert (bad.state, bad.error) == ("stopped", "the new parameters may have at most 262144 bytes as JSON")
        assert good.state == "done"


@pytest.mark.usefixtures("broker", "transactional_db")
class TestUndo:
    def test_ends_a_batch_that_waits(self) -> None:
        dead_singles(1)
        batch = create_replay_batch(Filter(), actor="ada")
        assert undo(batch.id, actor="bob", reason="wrong filter").what is Withdrawal.UNDONE
        run_due_batches(batch.starts_at)
        batch.refresh_from_db()
        assert (batch.state, batch.ended_by, open_dead_letters()) == ("undone", "bob", 1)
        actions = OperatorAction.objects.order_by("id").values_list("actor", "action", "target", "reason")
        assert list(actions) == [
            ("ada", "dead_letter.replay_batch", str(batch.id), ""),
            ("bob", "replay_batch.undo", str(batch.id), "wrong filter"),
        ]

    def test_of_two_operators_one_wins_and_the_other_learns_it(self) -> None:
        batch = create_replay_batch(dead_singles(1), actor="ada")
        bob, eve = at_once(partial(undo, batch.id, actor="bob"), partial(undo, batch.id, actor="eve"))
        assert sorted([bob.what, eve.what]) == [Withdrawal.OVER, Withdrawal.UNDONE]
        winner = "bob" if bob.what is Withdrawal.UNDONE else "eve"
        assert bob.batch is not None and eve.batch is not None
        assert bob.batch.ended_by == eve.batch.ended_by == winner

    def test_is_too_late_after_the_first_chunk_but_the_rest_can_be_stopped(self) -> None:
        batch = create_replay_batch(dead_singles(3), actor="ada", rate_per_minute=60)
        run_due_batches(batch.starts_at)
        assert undo(batch.id, actor="bob").what is Withdrawal.RUNNING
        assert stop(batch.id, actor="bob").what is Withdrawal.STOPPED
        run_due_batches(batch.starts_at + timedelta(minutes=5))
        batch.refresh_from_db()
        assert (batch.state, batch.replayed, open_dead_letters()) == ("stopped", 1, 2)
        assert stop(batch.id, actor="eve").what is Withdrawal.OVER
        assert undo(UUID(int=0), actor="eve").what is Withdrawal.GONE

    def test_waits_for_a_chunk_that_is_being_replayed_and_is_then_too_late(self) -> None:
        """The first chunk locks the row: an undo that comes meanwhile must not report that nothing was replayed."""
        batch = create_replay_batch(dead_singles(2), actor="ada", rate_per_minute=60, undo_seconds=0)
        outcomes: list[Withdrawal] = []

        def click() -> None:
            outcomes.append(undo(batch.id, actor="bob").what)
            connections.close_all()

        late = Thread(target=click)
        with transaction.atomic():
            run_due_batches(timezone.now())
            late.start()
            wait_until(a_lock_is_awaited, what="the undo waits for the row")
        late.join()
        assert outcomes == [Withdrawal.RUNNING]


@pytest.mark.parametrize("wrong", [{"rate_per_minute": 0}, {"undo_seconds": -1}, {"parameters": {"a": "\0"}}])
def test_an_invalid_batch_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidJob):
        create_replay_batch([], actor="ada", **wrong)


def test_the_rate_is_exact_and_missed_time_is_not_made_up_for() -> None:
    second = timedelta(seconds=1)
    assert allowance(NOW, NOW, 60, 50) == (1, NOW + second)
    assert allowance(NOW, NOW + 0.5 * second, 600, 50) == (6, NOW + 0.6 * second)
    assert allowance(NOW - timedelta(hours=1), NOW, 60, 50) == (3, NOW + second)  # two seconds' worth, and this one
    assert allowance(NOW, NOW, 60, 0) == (0, NOW)
    assert allowance(NOW, NOW, None, 500) == (100, NOW)


def test_the_engine_gets_the_changes_of_the_batch(broker: Broker, steps: Steps) -> None:
    [dead_letter] = dead_singles(1)
    create_replay_batch([dead_letter], actor="ada", parameters={"n": 2}, priority=Priority.HIGH, undo_seconds=0)
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    task = Task.objects.get()
    assert (task.status, task.result["parameters"], task.priority) == ("completed", {"n": 2}, "high")


def test_an_orchestrator_killed_in_the_middle_of_a_batch_leaves_it_to_the_next(orchestrators: Orchestrators) -> None:
    dead_singles(5)
    batch = create_replay_batch(Filter(), actor="ada", rate_per_minute=6000, undo_seconds=0)
    assert orchestrators.start(ready=False, DALSTON_FAULT="replay_batch.chunk").wait() == -9
    batch.refresh_from_db()
    assert (batch.state, batch.handled, open_dead_letters()) == ("waiting", 0, 5)
    orchestrators.start()
    wait_until(lambda: ReplayBatch.objects.get().state == "done", what="the batch is done")
    batch.refresh_from_db()
    assert (batch.replayed, batch.refused, open_dead_letters()) == (5, 0, 0)
    assert Task.objects.filter(attempt=2).count() == 5

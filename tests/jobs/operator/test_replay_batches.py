"""Replay orders: they wait to be undone, keep their rate, survive a kill, and take in nothing that came later."""

from collections.abc import Callable
from datetime import timedelta
from threading import Barrier, Thread
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
from tests.orchestrator.processes import Orchestrators
from tests.orchestrator.support import Steps, engine, run_to_the_end, somebody_waits_for_a_lock
from tests.support import Spawned, wait_until

pytestmark = pytest.mark.keeps_keys


def dead(*jobs: Job) -> list[UUID]:
    """Every task that is ready becomes a dead letter; returns the letters."""
    make.claim(*jobs)
    tasks = list(Task.objects.filter(job__in=jobs, status="ready").order_by("id"))
    make.move("dead_letter", tasks, cause="error", message="boom")
    Job.objects.filter(id__in=[job.id for job in jobs]).update(status="failed", finished_at=timezone.now())
    fields: dict[str, Any] = {"queue": "echo", "task_type": "echo", "cause": "error", "error": "boom"}
    letters = [DeadLetter(task=task, fingerprint="f", created_at=timezone.now(), **fields) for task in tasks]
    return [letter.id for letter in DeadLetter.objects.bulk_create(letters)]


def dead_singles(count: int) -> list[UUID]:
    return dead(*(make.single().job for _ in range(count)))


def open_letters() -> int:
    return DeadLetter.objects.filter(replayed_at__isnull=True).count()


@pytest.mark.usefixtures("broker", "transactional_db")
class TestAnOrder:
    def test_waits_and_nothing_of_it_has_happened_until_then(self) -> None:
        dead_singles(3)
        order = create_replay_batch(Filter(queue="echo"), actor="ada", reason="disk is back", undo_seconds=10)
        assert (order.matched, order.state) == (3, "waiting")
        run_due_batches(order.starts_at - timedelta(seconds=0.1))
        assert (open_letters(), Task.objects.filter(status="ready").count()) == (3, 0)
        run_due_batches(order.starts_at)
        order.refresh_from_db()
        assert (order.state, order.replayed, order.refused) == ("done", 3, 0)
        assert (open_letters(), Task.objects.filter(status="ready").count()) == (0, 3)

    def test_a_batch_reads_its_own_letters_only(self) -> None:
        """An order may name a hundred thousand: to read them all for each hundred takes longer than to replay them."""
        letters = dead(*(make.dag(a="", b="") for _ in range(2)))
        order = create_replay_batch(letters, actor="ada", rate_per_minute=60, priority=Priority.HIGH, undo_seconds=0)
        with CaptureQueriesContext(connection) as queries:
            run_due_batches(order.starts_at)
        read = [query["sql"] for query in queries if '"dead_letter_ids"' in query["sql"]]
        assert len(read) == 1 and '"dead_letter_ids")[1:1]' in read[0], read
        # Its sibling comes along, and was asked for as well: it gets the changes in the same batch.
        assert Task.objects.filter(status="ready", priority="high").count() == 2

    def test_takes_in_nothing_that_arrives_later(self) -> None:
        dead_singles(1)
        order = create_replay_batch(Filter(), actor="ada", undo_seconds=0)
        dead_singles(2)
        while run_due_batches(timezone.now() + timedelta(seconds=1)):
            pass
        order.refresh_from_db()
        assert (order.matched, order.replayed, open_letters()) == (1, 1, 2)

    def test_that_is_given_twice_is_one_order_and_what_came_between_is_another(self) -> None:
        dead_singles(2)
        first, again = (create_replay_batch(Filter(), actor=who) for who in ("ada", "bob"))
        assert (again.id, again.already_open, again.actor) == (first.id, True, "ada")
        assert not first.already_open
        changed = create_replay_batch(Filter(), actor="bob", priority=Priority.HIGH)
        assert (changed.matched, changed.already_open) == (2, False), "it is another wish"
        [late] = dead_singles(1)
        more = create_replay_batch(Filter(), actor="bob")
        assert (more.dead_letter_ids, more.matched, more.already_open) == ([late], 1, False)
        undo(first.id, actor="ada")
        assert create_replay_batch(Filter(), actor="bob").matched == 2, "what was undone is free again"
        assert OperatorAction.objects.filter(action="dead_letter.replay_batch").count() == 4

    def test_that_two_give_in_the_same_moment_is_one_order(self) -> None:
        dead_singles(2)
        together, got = Barrier(4), list[ReplayBatch]()

        def press() -> None:
            together.wait(10)
            got.append(create_replay_batch(Filter(), actor="ada"))
            connections.close_all()

        pressing = [Thread(target=press) for _ in range(4)]
        for one in pressing:
            one.start()
        for one in pressing:
            one.join()
        assert len({order.id for order in got}) == ReplayBatch.objects.count() == 1
        assert [order.already_open for order in got].count(False) == 1

    def test_goes_on_in_batches_and_counts_every_letter_once(self) -> None:
        letters = dead_singles(103)
        raw = DeadLetter.objects.create(queue="echo", cause="rejected", fingerprint="f", created_at=timezone.now())
        order = create_replay_batch([*letters, raw.id, letters[0]], actor="ada", undo_seconds=0)
        assert run_due_batches(timezone.now()) is True
        order.refresh_from_db()
        assert (order.state, order.handled) == ("running", 100)
        assert run_due_batches(timezone.now()) is False
        order.refresh_from_db()
        assert (order.state, order.matched, order.replayed, order.refused) == ("done", 104, 103, 1)

    def test_keeps_its_rate_whoever_carries_it_out(self) -> None:
        dead_singles(10)
        order = create_replay_batch(Filter(), actor="ada", rate_per_minute=60, undo_seconds=0)
        for second in range(5):  # two orchestrators look, each twice a second
            for part in (0, 0.1, 0.5, 0.6):
                assert run_due_batches(order.starts_at + timedelta(seconds=second + part)) is False
        order.refresh_from_db()
        assert (order.state, order.replayed) == ("running", 5)

    def test_brings_new_parameters_to_siblings_whose_turn_is_in_a_later_batch(self) -> None:
        job = make.dag(a="", b="", c="")
        letters = dead(job)
        create_replay_batch(letters[:2], actor="ada", parameters={"n": 2}, priority=Priority.HIGH, rate_per_minute=1)
        run_due_batches(timezone.now() + timedelta(seconds=10))
        found = {task.stage: (task.status, task.parameters, task.priority) for task in Task.objects.filter(job=job)}
        assert found == {
            "a": ("ready", {"n": 2}, "high"),
            "b": ("ready", {"n": 2}, "high"),
            "c": ("ready", {}, "medium"),  # taken back with its job, as it was
        }
        run_due_batches(timezone.now() + timedelta(seconds=80))
        order = ReplayBatch.objects.get()
        assert (order.state, order.replayed, order.already) == ("done", 1, 1)

    def test_that_can_never_be_carried_out_stops_and_holds_nobody_up(self) -> None:
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
    def test_takes_back_all_of_an_order_that_waits(self) -> None:
        dead_singles(1)
        order = create_replay_batch(Filter(), actor="ada")
        assert undo(order.id, actor="bob", reason="wrong filter").what is Withdrawal.UNDONE
        run_due_batches(order.starts_at)
        order.refresh_from_db()
        assert (order.state, order.ended_by, open_letters()) == ("undone", "bob", 1)
        actions = OperatorAction.objects.order_by("id").values_list("actor", "action", "target", "reason")
        assert list(actions) == [
            ("ada", "dead_letter.replay_batch", str(order.id), ""),
            ("bob", "replay_batch.undo", str(order.id), "wrong filter"),
        ]

    def test_of_two_operators_one_wins_and_the_other_is_told(self) -> None:
        order = create_replay_batch(dead_singles(1), actor="ada")
        start, told = Barrier(2), dict[str, Any]()

        def click(name: str) -> None:
            start.wait()
            told[name] = undo(order.id, actor=name)
            connections.close_all()

        both = [Thread(target=click, args=[name]) for name in ("bob", "eve")]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        assert sorted(answer.what for answer in told.values()) == [Withdrawal.OVER, Withdrawal.UNDONE]
        [winner] = [name for name, answer in told.items() if answer.what is Withdrawal.UNDONE]
        assert {answer.batch.ended_by for answer in told.values()} == {winner}

    def test_is_too_late_after_the_first_batch_but_the_rest_can_be_stopped(self) -> None:
        order = create_replay_batch(dead_singles(3), actor="ada", rate_per_minute=60)
        run_due_batches(order.starts_at)
        assert undo(order.id, actor="bob").what is Withdrawal.RUNNING
        assert stop(order.id, actor="bob").what is Withdrawal.STOPPED
        run_due_batches(order.starts_at + timedelta(minutes=5))
        order.refresh_from_db()
        assert (order.state, order.replayed, open_letters()) == ("stopped", 1, 2)
        assert stop(order.id, actor="eve").what is Withdrawal.OVER
        assert undo(UUID(int=0), actor="eve").what is Withdrawal.GONE

    def test_waits_for_a_batch_that_is_under_way_and_then_knows_better(self) -> None:
        """The first batch holds the row: an undo that comes meanwhile must not claim that nothing has happened."""
        order = create_replay_batch(dead_singles(2), actor="ada", rate_per_minute=60, undo_seconds=0)
        told: list[Withdrawal] = []

        def click() -> None:
            told.append(undo(order.id, actor="bob").what)
            connections.close_all()

        late = Thread(target=click)
        with transaction.atomic():
            run_due_batches(timezone.now())
            late.start()
            wait_until(somebody_waits_for_a_lock, what="the undo waits for the row")
        late.join()
        assert told == [Withdrawal.RUNNING]


@pytest.mark.parametrize("wrong", [{"rate_per_minute": 0}, {"undo_seconds": -1}, {"parameters": {"a": "\0"}}])
def test_what_cannot_be_ordered_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidJob):
        create_replay_batch([], actor="ada", **wrong)


def test_the_rate_is_kept_to_the_letter_and_missed_time_is_not_made_up_for() -> None:
    second = timedelta(seconds=1)
    assert allowance(NOW, NOW, 60, 50) == (1, NOW + second)
    assert allowance(NOW, NOW + 0.5 * second, 600, 50) == (6, NOW + 0.6 * second)
    assert allowance(NOW - timedelta(hours=1), NOW, 60, 50) == (3, NOW + second)  # two seconds' worth, and this one
    assert allowance(NOW, NOW, 60, 0) == (0, NOW)
    assert allowance(NOW, NOW, None, 500) == (100, NOW)


def test_the_engine_gets_what_the_order_says(broker: Broker, steps: Steps) -> None:
    [letter] = dead_singles(1)
    create_replay_batch([letter], actor="ada", parameters={"n": 2}, priority=Priority.HIGH, undo_seconds=0)
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    task = Task.objects.get()
    assert (task.status, task.result["parameters"], task.priority) == ("completed", {"n": 2}, "high")


def test_an_orchestrator_killed_in_the_middle_of_a_batch_leaves_it_to_the_next(
    spawn: Callable[..., Spawned], process_env: dict[str, str], database_url: str, broker: Broker
) -> None:
    orchestrators = Orchestrators(spawn, process_env, database_url)
    dead_singles(5)
    order = create_replay_batch(Filter(), actor="ada", rate_per_minute=6000, undo_seconds=0)
    assert orchestrators.start(ready=False, DALSTON_FAULT="replay_batch.batch").wait() == -9
    order.refresh_from_db()
    assert (order.state, order.handled, open_letters()) == ("waiting", 0, 5)
    orchestrators.start()
    wait_until(lambda: ReplayBatch.objects.get().state == "done", what="the order is done")
    order.refresh_from_db()
    assert (order.replayed, order.refused, open_letters()) == (5, 0, 0)
    assert Task.objects.filter(attempt=2).count() == 5

"""The only writer of a status: which rows move, which don't, and the history that each transition leaves."""

from datetime import timedelta

import pytest
from django.db import transaction

from dalston_queue.jobs.lifecycle.states import TASK_TRANSITIONS
from dalston_queue.jobs.lifecycle.status import Change, lock_jobs, move_jobs, move_tasks
from dalston_queue.models import Job, Task, TaskEvent
from tests.jobs import make
from tests.jobs.make import NOW, move

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_hints")]


def trail(task: Task) -> list[tuple[str, str, str, int]]:
    return list(task.events.order_by("id").values_list("transition", "from_status", "to_status", "attempt"))


def test_every_transition_is_in_the_history() -> None:
    task = make.single()
    for name in ("make_ready", "enqueue"):
        assert move(name, [task]) == [task.id]
    assert move("start", [task], seq=1, engine_id="n.e.0.b") == [task.id]
    assert move("complete", [task], seq=2, engine_id="n.e.0.b", result='{"a": 1}') == [task.id]
    assert trail(task) == [
        ("make_ready", "pending", "ready", 1),
        ("enqueue", "ready", "queued", 1),
        ("start", "queued", "running", 1),
        ("complete", "running", "completed", 1),
    ]
    task.refresh_from_db()
    assert (task.result, task.assigned_worker_id, task.finished_at, task.event_seq) == ({"a": 1}, "n.e.0.b", NOW, 2)


def test_a_move_from_the_wrong_state_moves_nothing_and_leaves_no_trace() -> None:
    task = make.single()
    assert move("enqueue", [task]) == []
    assert trail(task) == []


def test_a_move_at_an_old_attempt_moves_nothing() -> None:
    task = make.single()
    move("make_ready", [task])
    move("retry", [task], scheduled_at=NOW, charge=1)
    assert move("due", [task]) == []  # `task` still says attempt 1
    task.refresh_from_db()
    assert (task.attempt, task.retry_count, task.status) == (2, 1, "scheduled")
    assert move("due", [task]) == [task.id]


def test_an_event_that_is_not_newer_than_the_last_one_moves_nothing() -> None:
    task = make.single()
    move("make_ready", [task])
    assert move("start", [task], seq=3) == [task.id]
    assert move("start", [task], seq=3) == []
    assert move("recover", [task], seq=2) == []


def test_completed_is_accepted_before_queued_was_committed() -> None:
    task = make.single()
    move("make_ready", [task])
    assert move("complete", [task], seq=2, result="null") == [task.id]
    assert move("enqueue", [task]) == []


def test_a_retry_is_a_new_attempt_and_keeps_its_age_and_the_priority_it_has_reached() -> None:
    task = make.single(priority="low")
    Task.objects.filter(id=task.id).update(effective_priority="high", deliveries=2)
    move("make_ready", [task])
    due = NOW + timedelta(seconds=7)
    move("retry", [task], scheduled_at=due, timeout_seconds=1350, charge=1, cause="timeout", message="too slow")
    task.refresh_from_db()
    assert (task.effective_priority, task.deliveries, task.timeout_seconds) == ("high", 0, 1350)
    assert task.first_enqueued_at == NOW
    assert (task.scheduled_at, task.error, task.error_cause, task.event_seq) == (due, "too slow", "timeout", 0)


def test_a_bulk_move_says_which_rows_moved() -> None:
    tasks = [make.single() for _ in range(5)]
    move("make_ready", tasks[:2])
    assert set(move("make_ready", tasks)) == {task.id for task in tasks[2:]}
    assert TaskEvent.objects.filter(transition="make_ready").count() == 5


@pytest.mark.django_db(transaction=True)
def test_status_cannot_be_changed_outside_a_transaction() -> None:
    task = make.single()
    with pytest.raises(RuntimeError, match="inside a transaction"):
        move_tasks("make_ready", [Change(task_id=task.id, attempt=1, at=NOW)])
    with pytest.raises(RuntimeError, match="inside a transaction"):
        lock_jobs([task.job_id])


def test_a_job_moves_only_from_where_the_table_allows() -> None:
    job = make.dag(a="")
    with transaction.atomic():
        lock_jobs([job.id])
        assert move_jobs("complete", [job.id], NOW) == []
        assert move_jobs("claim", [job.id], NOW) == [job.id]
        assert move_jobs("fail", [job.id], NOW, {job.id: "stage a: broken"}) == [job.id]
    job.refresh_from_db()
    assert (job.status, job.error, job.finished_at) == ("failed", "stage a: broken", NOW)


@pytest.mark.parametrize("name", TASK_TRANSITIONS)
def test_every_move_in_the_table_can_be_made_from_each_of_its_states(name: str) -> None:
    for source in TASK_TRANSITIONS[name].sources:
        task = make.single()
        finished = NOW if source in ("completed", "failed", "dead_letter", "cancelled", "skipped") else None
        Task.objects.filter(id=task.id).update(status=source, finished_at=finished, scheduled_at=NOW)
        assert move(name, [task], scheduled_at=NOW, result="null", seq=1) == [task.id], source
        task.refresh_from_db()
        assert task.status == TASK_TRANSITIONS[name].target


def test_a_job_that_is_gone_is_simply_not_locked() -> None:
    job = make.dag(a="")
    Job.objects.filter(id=job.id).delete()
    with transaction.atomic():
        assert lock_jobs([job.id]) == {}

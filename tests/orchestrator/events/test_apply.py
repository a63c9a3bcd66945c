"""Events in any order and any number of times: each task ends once, and its history is legal."""

import itertools
from datetime import datetime, timedelta
from functools import partial

import pytest
from django.utils import timezone

from dalston_queue.broker.protocol.messages import Event
from dalston_queue.broker.protocol.types import EventKind
from dalston_queue.jobs.operator.cancel import cancel_job
from dalston_queue.jobs.order.depth import counted, depths
from dalston_queue.models import DeadLetter, Task, TaskEvent
from dalston_queue.orchestrator.apply import HANDLERS, rounds
from dalston_queue.orchestrator.batch import handle
from tests.jobs import make
from tests.jobs.together import at_once
from tests.orchestrator.events.make import event, life


def milliseconds(at: datetime | None) -> int:
    assert at is not None
    return int(at.timestamp() * 1000)


def legal(task: Task) -> bool:
    trail = list(task.events.order_by("id").values_list("from_status", "to_status"))
    return trail[0][0] == "pending" and all(before[1] == after[0] for before, after in itertools.pairwise(trail))


@pytest.mark.django_db
@pytest.mark.usefixtures("no_hints")
@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_in_whatever_order_events_come_the_task_is_completed_once(order: tuple[int, ...]) -> None:
    task = make.single()
    make.claim(task.job)
    events = life(task)
    for index in order:
        handle([events[index]], timezone.now())
    task.refresh_from_db()
    assert (task.status, task.result, task.job.status) == ("completed", {"ok": True}, "completed")
    assert task.events.filter(to_status="completed").count() == 1
    assert legal(task)


@pytest.mark.django_db
@pytest.mark.usefixtures("no_hints")
def test_all_of_them_twice_in_one_batch_change_nothing_more() -> None:
    task = make.single()
    make.claim(task.job)
    handle(life(task) + list(reversed(life(task))), timezone.now())
    handle(life(task), timezone.now())
    task.refresh_from_db()
    assert list(task.events.order_by("id").values_list("transition", flat=True)) == [
        "make_ready", "start", "recover", "start", "complete",
    ]  # fmt: skip
    assert (task.node_losses, legal(task)) == (1, True)


@pytest.mark.django_db
@pytest.mark.usefixtures("no_hints")
def test_an_event_of_an_old_attempt_changes_nothing() -> None:
    task = make.single()
    make.claim(task.job)
    old = life(task)
    make.move("rebuild", [task])
    handle(old, timezone.now())
    task.refresh_from_db()
    assert (task.status, task.attempt) == ("ready", 2)


@pytest.mark.django_db
@pytest.mark.usefixtures("no_hints")
def test_events_of_jobs_that_are_gone_are_passed_over() -> None:
    task = make.single()
    make.claim(task.job)
    events = life(task)
    task.job.delete()
    handle(events, timezone.now())
    assert not DeadLetter.objects.exists()


def test_rounds_keep_the_order_of_each_task_and_never_hold_a_task_twice() -> None:
    def item(task: str, seq: int) -> Event:
        return Event(kind=EventKind.TASK_STARTED, job_id="j", task_id=task, attempt=1, seq=seq)

    batches = rounds([item("a", 3), item("b", 1), item("a", 1), item("a", 2)])
    assert [[(event.task_id, event.seq) for event in batch] for batch in batches] == [
        [("a", 1), ("b", 1)], [("a", 2)], [("a", 3)],
    ]  # fmt: skip


@pytest.mark.django_db
@pytest.mark.usefixtures("no_hints")
def test_a_backslash_before_u0000_is_text_like_any_other() -> None:
    task = make.single()
    make.claim(task.job)
    path = "C:\\u0000dir"
    result = {"path": path, "$stages": [{"stage": "more", "parameters": {"path": path}}]}
    handle([event(task, EventKind.TASK_COMPLETED, 2, result=result)], timezone.now())
    task.refresh_from_db()
    assert (task.status, task.result["path"]) == ("completed", path)
    assert Task.objects.get(job=task.job, stage="more").parameters == {"path": path}


@pytest.mark.django_db
@pytest.mark.usefixtures("no_hints")
def test_stages_for_a_job_that_is_gone_are_passed_over() -> None:
    task = make.single()
    make.claim(task.job)
    late = event(task, EventKind.TASK_COMPLETED, 2, result={"$stages": [{"stage": "more"}]})
    task.job.delete()
    handle([late], timezone.now())
    assert not DeadLetter.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_hints")
def test_the_same_events_handled_by_twenty_at_once_make_each_dependent_ready_once() -> None:
    jobs = [make.dag(a="", b="", c="a b") for _ in range(10)]
    created = [Event(kind=EventKind.JOB_CREATED, job_id=str(job.id), at_ms=1) for job in jobs]
    at_once(*[partial(handle, created, timezone.now())] * 20)
    assert TaskEvent.objects.filter(transition="make_ready").count() == 20
    parents = Task.objects.filter(job__in=jobs, stage__in=["a", "b"])
    completed = [event(task, EventKind.TASK_COMPLETED, 2, result=1) for task in parents]
    at_once(*[partial(handle, completed, timezone.now())] * 20)
    assert TaskEvent.objects.filter(transition="complete").count() == 20
    assert TaskEvent.objects.filter(transition="make_ready", task__stage="c").count() == 10
    assert set(Task.objects.filter(stage="c").values_list("status", flat=True)) == {"ready"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_hints")
def test_a_cancel_and_a_completion_at_once_have_one_winner() -> None:
    for _ in range(10):
        task = make.single()
        make.claim(task.job)
        make.move("start", [task])
        done = [event(task, EventKind.TASK_COMPLETED, 2, result=1)]
        at_once(partial[object](handle, done, timezone.now()), partial[object](cancel_job, task.job_id, timezone.now()))
        task.refresh_from_db()
        assert task.status == "completed"
        assert task.job.status in ("completed", "cancelled")
        assert task.events.filter(to_status="completed").count() == 1


def test_every_kind_of_event_has_its_handler() -> None:
    assert set(HANDLERS) == set(EventKind) - {EventKind.JOB_CREATED}


@pytest.mark.django_db
@pytest.mark.usefixtures("no_hints")
def test_a_start_and_its_completion_in_one_batch_are_one_move_with_both_rows_of_history() -> None:
    task = make.single()
    make.claim(task.job)
    began, ended = timezone.now() - timedelta(seconds=9), timezone.now()
    start = event(task, EventKind.TASK_STARTED, 1, at_ms=milliseconds(began))
    handle([start, event(task, EventKind.TASK_COMPLETED, 2, at_ms=milliseconds(ended))], timezone.now())
    task.refresh_from_db()
    rows = list(task.events.order_by("id").values_list("transition", "from_status", "to_status"))
    assert rows[1:] == [("start", "ready", "running"), ("complete", "running", "completed")]
    assert (task.status, milliseconds(task.started_at)) == ("completed", milliseconds(began))
    assert depths() == counted() == []


@pytest.mark.django_db
@pytest.mark.usefixtures("no_hints")
def test_a_start_whose_completion_is_refused_is_still_recorded() -> None:
    task = make.single()
    make.claim(task.job)
    ended = event(task, EventKind.TASK_COMPLETED, 2, result={"$stages": "none"})
    handle([event(task, EventKind.TASK_STARTED, 1), ended], timezone.now())
    rows = list(task.events.order_by("id").values_list("transition", flat=True))
    assert rows == ["make_ready", "start", "dead_letter"]

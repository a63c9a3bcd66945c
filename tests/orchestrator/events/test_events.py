"""Events in any order, any number of times, and poison among them."""

import itertools
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from msgspec.structs import replace

from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.messages import Completed, ErrorInfo, Event, Failed, Outcome
from dalston_queue.broker.protocol.types import Cause, EventKind
from dalston_queue.jobs.operator.cancel import cancel_job
from dalston_queue.models import DeadLetter, Task, TaskEvent
from dalston_queue.orchestrator.apply import HANDLERS, rounds
from dalston_queue.orchestrator.batch import handle
from dalston_queue.orchestrator.duties.reconciler import reconcile
from tests.jobs import make
from tests.orchestrator.support import Steps, engine, run_to_the_end, work


def event(task: Task, kind: EventKind, seq: int, **more: Any) -> Event:
    at_ms = int(timezone.now().timestamp() * 1000)
    return Event(
        kind=kind, job_id=str(task.job_id), task_id=str(task.id), queue="echo", attempt=task.attempt, seq=seq,
        engine_id="n.e.0.b", at_ms=at_ms, **more,
    )  # fmt: skip


def nested(levels: int) -> Any:
    value: Any = "core"
    for _ in range(levels):
        value = [value]
    return value


def life(task: Task) -> list[Event]:
    """Started, lost, started again, completed."""
    return [
        event(task, EventKind.TASK_STARTED, 1),
        event(task, EventKind.TASK_RECOVERED, 2, error=ErrorInfo(message="lost", cause=Cause.NODE_LOST), losses=1),
        event(task, EventKind.TASK_STARTED, 3),
        event(task, EventKind.TASK_COMPLETED, 4, result={"ok": True}),
    ]


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
    for place in order:
        handle([events[place]], timezone.now())
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
@pytest.mark.parametrize(
    "spoil",
    [
        lambda task: event(task, EventKind.TASK_COMPLETED, 2**70, result=1),
        lambda task: replace(event(task, EventKind.TASK_COMPLETED, 2, result=1), at_ms=10**20),
        lambda task: replace(event(task, EventKind.TASK_COMPLETED, 2, result=1), at_ms=-(10**17)),
    ],
    ids=["a number that Postgres cannot hold", "a time that no clock has", "a year before the first"],
)
def test_a_poison_event_is_a_dead_letter_and_the_rest_of_its_batch_goes_on(spoil: Callable[[Task], Event]) -> None:
    tasks = [make.single() for _ in range(9)]
    make.claim(*[task.job for task in tasks])
    batch = [event(task, EventKind.TASK_COMPLETED, 2, result=1) for task in tasks]
    batch[4] = spoil(tasks[4])
    handle(batch, timezone.now())
    states = [Task.objects.get(id=task.id).status for task in tasks]
    assert states == ["completed"] * 4 + ["dead_letter"] + ["completed"] * 4
    letter = DeadLetter.objects.get()
    assert (letter.task_id, letter.error_type) == (tasks[4].id, "UnstorableEvent")
    assert letter.error.startswith("its event task.completed could not be stored: ")


@pytest.mark.django_db
@pytest.mark.usefixtures("no_hints")
def test_a_poison_event_that_cannot_even_end_its_task_is_kept_by_itself() -> None:
    task, other = make.single(), make.single()
    make.claim(task.job, other.job)
    poison = replace(event(task, EventKind.TASK_COMPLETED, 2, result=1), attempt=99_999_999_999)
    for _ in range(2):
        handle([poison, event(other, EventKind.TASK_COMPLETED, 2, result=1)], timezone.now())
    assert [Task.objects.get(id=each.id).status for each in (task, other)] == ["ready", "completed"]
    letter = DeadLetter.objects.get()
    assert (letter.task, letter.queue) == (None, "echo")
    assert "99999999999" in letter.raw["event"]


@pytest.mark.django_db
@pytest.mark.usefixtures("no_hints")
def test_a_poison_event_of_a_task_that_is_over_does_not_vanish() -> None:
    task = make.single()
    make.claim(task.job)
    handle(life(task), timezone.now())
    handle([event(task, EventKind.TASK_COMPLETED, 2**70, result="late")], timezone.now())
    task.refresh_from_db()
    assert task.status == "completed"
    letter = DeadLetter.objects.get()
    assert letter.task is None
    assert str(task.id) in letter.raw["event"]


@pytest.mark.django_db
@pytest.mark.usefixtures("no_hints")
def test_a_poison_event_that_is_handled_twice_leaves_one_letter() -> None:
    task = make.single()
    make.claim(task.job)
    for _ in range(2):
        handle([event(task, EventKind.TASK_COMPLETED, 2**70, result=1)], timezone.now())
    assert DeadLetter.objects.get().task_id == task.id


@pytest.mark.django_db
@pytest.mark.usefixtures("no_hints")
@pytest.mark.parametrize(
    ("result", "why"),
    [
        ({"text": "a\x00b"}, "its result holds a NUL character, which Postgres can't store"),
        (nested(65), "its result is nested deeper than 64 levels; return it as text or as an artifact"),
        (nested(900), "its result is nested deeper than 64 levels; return it as text or as an artifact"),
        (
            {"$stages": [{"stage": "more", "parameters": {"path": "\x00"}}]},
            "its result holds a NUL character, which Postgres can't store",
        ),
        (
            {"$stages": [{"stage": "echo"}]},
            "its result asks for stages: the stage 'echo' is named twice",
        ),
    ],
    ids=["a NUL", "one level too deep", "very deep", "a NUL in a stage", "a stage that is there"],
)
def test_a_result_that_cannot_be_kept_is_a_dead_letter_that_says_why(result: Any, why: str) -> None:
    task, other = make.single(), make.single()
    make.claim(task.job, other.job)
    events = [event(each, EventKind.TASK_COMPLETED, 2, result=1) for each in (task, other)]
    handle([replace(events[0], result=result), events[1]], timezone.now())
    assert [Task.objects.get(id=each.id).status for each in (task, other)] == ["dead_letter", "completed"]
    letter = DeadLetter.objects.get()
    assert (letter.task_id, letter.cause, letter.error) == (task.id, "rejected", why)


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


@pytest.mark.django_db
@pytest.mark.usefixtures("no_hints")
def test_evidence_that_is_nested_too_deeply_is_left_out_of_the_letter() -> None:
    task = make.single()
    make.claim(task.job)
    error = ErrorInfo(message="no", cause=Cause.REJECTED, evidence=nested(900))
    handle([event(task, EventKind.TASK_FAILED, 2, error=error)], timezone.now())
    letter = DeadLetter.objects.get()
    assert letter.task_id == task.id
    assert letter.evidence == "left out: it is nested deeper than 64 levels"


@pytest.mark.django_db
@pytest.mark.usefixtures("no_hints")
def test_an_event_that_names_no_job_is_kept_by_itself() -> None:
    task = make.single()
    make.claim(task.job)
    stray = Event(kind=EventKind.TASK_COMPLETED, job_id="no-uuid", task_id="x", queue="echo", attempt=1, seq=1)
    handle([stray, *life(task)], timezone.now())
    task.refresh_from_db()
    assert task.status == "completed"
    assert DeadLetter.objects.get().task is None


def test_an_unreadable_event_in_the_stream_is_kept_raw_and_consumption_goes_on(broker: Broker, steps: Steps) -> None:
    task = make.single()
    steps.poll()
    shard = broker.home
    shard.command("XADD", shard.keys.events("echo"), "*", "m", b"\xff\xfe", "k", "nonsense")
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    task.refresh_from_db()
    assert task.status == "completed"
    letter = DeadLetter.objects.get()
    assert (letter.queue, letter.error_type, letter.task) == ("echo", "Malformed", None)
    assert letter.raw["m"] == {"base64": "//4="}
    assert letter.raw["k"] == "nonsense"


@pytest.mark.parametrize(
    "outcome",
    [
        Failed(ErrorInfo(message=None)),  # type: ignore[arg-type]
        Failed(ErrorInfo(message="x", retry_after_s="soon")),  # type: ignore[arg-type]
        Completed(nested(500)),
        Completed({"$stages": [{"stage": "more", "parameters": {"path": "\x00"}}]}),
    ],
    ids=["no message", "soon", "very deep", "a NUL in a stage"],
)
def test_whatever_an_engine_reports_its_task_ends_and_the_others_go_on(
    broker: Broker, steps: Steps, outcome: Outcome
) -> None:
    odd, good = make.single(), make.single()
    steps.poll()
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer, lambda task: outcome if task.task_id == str(odd.id) else Completed(1))
    assert [Task.objects.get(id=task.id).status for task in (odd, good)] == ["dead_letter", "completed"]
    assert DeadLetter.objects.get().task_id == odd.id
    assert broker.records("echo", [str(odd.id)]) == {}
    assert reconcile().found == {}


def test_an_unreadable_entry_without_a_record_is_kept_raw_and_its_task_runs_all_the_same(
    broker: Broker, steps: Steps
) -> None:
    task = make.single()
    steps.poll()
    shard = broker.home
    [[entry_id, fields]] = shard.command("XRANGE", shard.keys.stream("echo"), "-", "+")
    body = fields.index(b"m")
    fields[body + 1] = b"not json"
    shard.command("XDEL", shard.keys.stream("echo"), entry_id)
    shard.command("DEL", shard.keys.tasks("echo"))
    shard.command("XADD", shard.keys.stream("echo"), "*", *fields)
    with engine(broker) as consumer:
        work(consumer)
        steps.drain()
        letter = DeadLetter.objects.get()
        assert (letter.task_id, letter.cause, letter.error) == (None, "rejected", "the entry has no record")
        assert letter.raw["m"] == "not json"
        assert reconcile().found == {"in Postgres but not in Redis": 1}
        run_to_the_end(steps, consumer)
    task.refresh_from_db()
    assert (task.status, task.attempt) == ("completed", 2)


def test_a_task_whose_own_entry_cannot_be_read_is_a_dead_letter_with_the_raw_fields(
    broker: Broker, steps: Steps
) -> None:
    """Kept without its task, it was put in line again as a new attempt, and could be read no better, for ever."""
    task, good = make.single(), make.single()
    steps.poll()
    shard = broker.home
    stream, tasks = shard.keys.stream("echo"), shard.keys.tasks("echo")
    record = broker.records("echo", [str(task.id)])[str(task.id)]
    [[entry_id, fields]] = shard.command("XRANGE", stream, record.entry_id, record.entry_id)
    fields[fields.index(b"m") + 1] = b"not json"
    shard.command("XDEL", stream, entry_id)
    new_id = shard.command("XADD", stream, "*", *fields)
    line = shard.command("HGET", tasks, str(task.id))
    shard.command("HSET", tasks, str(task.id), line.replace(entry_id, new_id))
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    assert [Task.objects.get(id=each.id).status for each in (task, good)] == ["dead_letter", "completed"]
    letter = DeadLetter.objects.get()
    assert (letter.task_id, letter.cause, letter.raw["m"]) == (task.id, "rejected", "not json")
    assert letter.error.startswith("the entry can not be read")
    assert broker.records("echo", [str(task.id)]) == {} and reconcile().found == {}


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_hints")
def test_the_same_events_handled_by_twenty_at_once_give_one_dag_and_one_release_per_dependent() -> None:
    jobs = [make.dag(a="", b="", c="a b") for _ in range(10)]
    created = [Event(kind=EventKind.JOB_CREATED, job_id=str(job.id), at_ms=1) for job in jobs]
    at_once(20, lambda: handle(created, timezone.now()))
    assert TaskEvent.objects.filter(transition="make_ready").count() == 20
    parents = Task.objects.filter(job__in=jobs, stage__in=["a", "b"])
    completed = [event(task, EventKind.TASK_COMPLETED, 2, result=1) for task in parents]
    at_once(20, lambda: handle(completed, timezone.now()))
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
        complete = partial(handle, done, timezone.now())
        cancel = partial(cancel_job, task.job_id, timezone.now())
        race = iter([complete, cancel])
        at_once(2, lambda race=race: next(race)())  # type: ignore[misc]
        task.refresh_from_db()
        assert task.status == "completed"
        assert task.job.status in ("completed", "cancelled")
        assert task.events.filter(to_status="completed").count() == 1


def at_once(count: int, act: Callable[[], object]) -> None:
    """Run it in so many threads, each with its own database connection, all starting together."""
    start = threading.Barrier(count)
    errors: list[BaseException] = []

    def run() -> None:
        start.wait()
        try:
            act()
        except BaseException as error:
            errors.append(error)
            raise
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_every_kind_of_event_has_its_handler() -> None:
    assert set(HANDLERS) == set(EventKind) - {EventKind.JOB_CREATED}

"""Events that can't be applied and entries that can't be read become dead letters; the rest goes on."""

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone
from msgspec.structs import replace

from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.messages import Completed, ErrorInfo, Event, Failed, Outcome
from dalston_queue.broker.protocol.types import Cause, EventKind
from dalston_queue.models import DeadLetter, Task
from dalston_queue.orchestrator.batch import handle
from dalston_queue.orchestrator.duties.reconciler import reconcile
from tests.jobs import make
from tests.orchestrator.events.make import event, life
from tests.orchestrator.support import Steps, engine, run_to_the_end, work


def nested(levels: int) -> Any:
    value: Any = "core"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.django_db
@pytest.mark.usefixtures("no_hints")
@pytest.mark.parametrize(
    "poison",
    [
        lambda task: event(task, EventKind.TASK_COMPLETED, 2**70, result=1),
        lambda task: replace(event(task, EventKind.TASK_COMPLETED, 2, result=1), at_ms=10**20),
        lambda task: replace(event(task, EventKind.TASK_COMPLETED, 2, result=1), at_ms=-(10**17)),
    ],
    ids=["a number that Postgres cannot hold", "a time that no clock has", "a year before the first"],
)
def test_a_poison_event_is_a_dead_letter_and_the_rest_of_its_batch_goes_on(poison: Callable[[Task], Event]) -> None:
    tasks = [make.single() for _ in range(9)]
    make.claim(*[task.job for task in tasks])
    batch = [event(task, EventKind.TASK_COMPLETED, 2, result=1) for task in tasks]
    batch[4] = poison(tasks[4])
    handle(batch, timezone.now())
    states = [Task.objects.get(id=task.id).status for task in tasks]
    assert states == ["completed"] * 4 + ["dead_letter"] + ["completed"] * 4
    dead_letter = DeadLetter.objects.get()
    assert (dead_letter.task_id, dead_letter.error_type) == (tasks[4].id, "UnstorableEvent")
    assert dead_letter.error.startswith("its event task.completed could not be stored: ")


@pytest.mark.django_db
@pytest.mark.usefixtures("no_hints")
def test_a_poison_event_that_cannot_even_end_its_task_is_kept_by_itself() -> None:
    task, other = make.single(), make.single()
    make.claim(task.job, other.job)
    poison = replace(event(task, EventKind.TASK_COMPLETED, 2, result=1), attempt=99_999_999_999)
    for _ in range(2):
        handle([poison, event(other, EventKind.TASK_COMPLETED, 2, result=1)], timezone.now())
    assert [Task.objects.get(id=each.id).status for each in (task, other)] == ["ready", "completed"]
    dead_letter = DeadLetter.objects.get()
    assert (dead_letter.task, dead_letter.queue) == (None, "echo")
    assert "99999999999" in dead_letter.raw["event"]


@pytest.mark.django_db
@pytest.mark.usefixtures("no_hints")
def test_a_poison_event_of_a_task_that_is_over_does_not_vanish() -> None:
    task = make.single()
    make.claim(task.job)
    handle(life(task), timezone.now())
    handle([event(task, EventKind.TASK_COMPLETED, 2**70, result="late")], timezone.now())
    task.refresh_from_db()
    assert task.status == "completed"
    dead_letter = DeadLetter.objects.get()
    assert dead_letter.task is None
    assert str(task.id) in dead_letter.raw["event"]


@pytest.mark.django_db
@pytest.mark.usefixtures("no_hints")
def test_a_poison_event_that_is_handled_twice_leaves_one_dead_letter() -> None:
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
    dead_letter = DeadLetter.objects.get()
    assert (dead_letter.task_id, dead_letter.cause, dead_letter.error) == (task.id, "rejected", why)


@pytest.mark.django_db
@pytest.mark.usefixtures("no_hints")
def test_evidence_that_is_nested_too_deeply_is_left_out_of_the_dead_letter() -> None:
    task = make.single()
    make.claim(task.job)
    error = ErrorInfo(message="no", cause=Cause.REJECTED, evidence=nested(900))
    handle([event(task, EventKind.TASK_FAILED, 2, error=error)], timezone.now())
    dead_letter = DeadLetter.objects.get()
    assert dead_letter.task_id == task.id
    assert dead_letter.evidence == "left out: it is nested deeper than 64 levels"


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
    dead_letter = DeadLetter.objects.get()
    assert (dead_letter.queue, dead_letter.error_type, dead_letter.task) == ("echo", "Malformed", None)
    assert dead_letter.raw["m"] == {"base64": "//4="}
    assert dead_letter.raw["k"] == "nonsense"


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
        dead_letter = DeadLetter.objects.get()
        assert (dead_letter.task_id, dead_letter.cause, dead_letter.error) == (
            None,
            "rejected",
            "the entry has no readable record",
        )
        assert dead_letter.raw["m"] == "not json"
        assert reconcile().found == {"in Postgres but not in Redis": 1}
        run_to_the_end(steps, consumer)
    task.refresh_from_db()
    assert (task.status, task.attempt) == ("completed", 2)


def test_a_task_whose_own_entry_cannot_be_read_is_a_dead_letter_with_the_raw_fields(
    broker: Broker, steps: Steps
) -> None:
    """Otherwise the task would be queued again as a new attempt, with an entry that can't be read either, for ever."""
    task, good = make.single(), make.single()
    steps.poll()
    shard = broker.home
    stream, tasks = shard.keys.stream("echo"), shard.keys.tasks("echo")
    record = broker.records("echo", [str(task.id)])[str(task.id)]
    [[entry_id, fields]] = shard.command("XRANGE", stream, record.entry_id, record.entry_id)
    fields[fields.index(b"m") + 1] = b"not json"
    shard.command("XDEL", stream, entry_id)
    new_id = shard.command("XADD", stream, "*", *fields)
    text = shard.command("HGET", tasks, str(task.id))
    shard.command("HSET", tasks, str(task.id), text.replace(entry_id, new_id))
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    assert [Task.objects.get(id=each.id).status for each in (task, good)] == ["dead_letter", "completed"]
    dead_letter = DeadLetter.objects.get()
    assert (dead_letter.task_id, dead_letter.cause, dead_letter.raw["m"]) == (task.id, "rejected", "not json")
    assert dead_letter.error.startswith("the entry can not be read")
    assert broker.records("echo", [str(task.id)]) == {} and reconcile().found == {}

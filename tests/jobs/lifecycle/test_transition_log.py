"""The log lines of transitions: one per move, after the commit, with the ids and without what the client sent."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from dalston_queue import task_log
from dalston_queue.jobs.lifecycle import transition_log
from dalston_queue.jobs.lifecycle.advance import claim_jobs
from dalston_queue.jobs.lifecycle.states import JOB_TRANSITIONS, TASK_TRANSITIONS
from dalston_queue.jobs.lifecycle.status import Change, lock_jobs, move_tasks
from dalston_queue.jobs.submit.spec import single_task
from dalston_queue.jobs.submit.submit import Request, submit_many
from dalston_queue.metrics.tasks import TRANSITIONS
from dalston_queue.models import Job, Task
from tests.jobs import make
from tests.jobs.make import NOW, move

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_hints")]
SECRET = "what the client sent"
ENGINE = "n.e.0.b"


class Lines(logging.Handler):
    """The rows that were logged, each with its level."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.rows += [{"level": record.levelname, **row} for row in task_log.rows_of(record)]

    def of(self, task: Task) -> list[dict[str, Any]]:
        return [row for row in self.rows if row.get("task_id") == task.id]

    def events(self, task: Task) -> list[str]:
        return [row["event"] for row in self.of(task)]


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler = Lines()
    transition_log.log.addHandler(handler)
    yield handler
    transition_log.log.removeHandler(handler)


@pytest.fixture
def debugged(lines: Lines) -> Iterator[Lines]:
    transition_log.log.setLevel(logging.DEBUG)
    yield lines
    transition_log.log.setLevel(logging.NOTSET)


def test_every_transition_has_its_event() -> None:
    assert transition_log.TASK_EVENTS.keys() == TASK_TRANSITIONS.keys()
    assert transition_log.JOB_EVENTS.keys() == JOB_TRANSITIONS.keys()


def test_moves_of_one_transaction_are_logged_and_counted_once_each(lines: Lines) -> None:
    """An orchestrator claims one job and goes on with another before it commits, and adds both up."""
    first, second = make.single(), make.single()
    counted = TRANSITIONS.labels("pending", "ready")._value.get()
    with transaction.atomic():
        done = claim_jobs([first.job_id], NOW)
        done.add(claim_jobs([second.job_id], NOW))
    assert [moved.task_id for moved in done.ready] == [first.id, second.id]
    assert [lines.events(task) for task in (first, second)] == [["task_ready"], ["task_ready"]]
    assert TRANSITIONS.labels("pending", "ready")._value.get() == counted + 2


def test_a_task_from_submit_to_its_end_is_a_line_per_transition_with_all_ids(lines: Lines) -> None:
    task = make.single(parameters={"text": SECRET})
    make.claim(task.job)
    move("enqueue", [task])
    move("start", [task], seq=1, engine_id=ENGINE)
    move(
        "retry",
        [task],
        seq=2,
        engine_id=ENGINE,
        cause="error",
        message=SECRET,
        error_type="ValueError",
        scheduled_at=NOW,
    )
    task.refresh_from_db()
    move("dead_letter", [task], message=SECRET, cause="rejected")
    move("due", [task])
    task.refresh_from_db()
    move("enqueue", [task])
    move("dead_letter", [task], seq=1, engine_id=ENGINE, message=SECRET, cause="rejected")
    wanted = ["task_ready", "task_queued", "task_started", "task_retried", "task_due", "task_queued"]
    assert lines.events(task) == [*wanted, "task_dead_lettered"]
    assert [row["attempt"] for row in lines.of(task)] == [1, 1, 1, 2, 2, 2, 2]
    assert all(row["trace_id"] == task.job.trace_id and row["job_id"] == task.job_id for row in lines.of(task))
    started, retried, dead = (lines.of(task)[index] for index in (2, 3, 6))
    assert (started["engine_id"], started["from"], started["level"]) == (ENGINE, "queued", "INFO")
    assert (retried["cause"], retried["error_type"]) == ("error", "ValueError")
    assert (dead["cause"], dead["level"]) == ("rejected", "WARNING")
    jobs = [row["event"] for row in lines.rows if "task_id" not in row]
    assert jobs == ["job_submitted", "job_claimed"]
    assert SECRET not in str(lines.rows)


def test_a_completion_with_its_start_is_two_lines(lines: Lines) -> None:
    task = make.single()
    make.claim(task.job)
    move("enqueue", [task])
    move("complete", [task], seq=2, engine_id=ENGINE, result="1", start_at=NOW, start_seq=1)
    found = [(row["event"], row["from"], row["engine_id"]) for row in lines.of(task)[2:]]
    assert found == [("task_started", "queued", ENGINE), ("task_completed", "running", ENGINE)]


def test_a_start_that_was_applied_before_is_not_logged_again(lines: Lines) -> None:
    task = make.single()
    make.claim(task.job)
    move("start", [task], seq=1, engine_id=ENGINE)
    move("complete", [task], seq=2, engine_id=ENGINE, result="1", start_at=NOW, start_seq=1)
    assert lines.events(task)[1:] == ["task_started", "task_completed"]


def test_what_is_rolled_back_is_not_logged(lines: Lines) -> None:
    task = make.single()
    with transaction.atomic():
        lock_jobs([task.job_id])
        assert move_tasks("make_ready", [Change(task_id=task.id, attempt=1, at=NOW)])
        assert lines.events(task) == []
        transaction.set_rollback(True)
    assert lines.events(task) == []


def test_a_handler_that_raises_stops_nothing(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    task = make.single()

    def full(record: logging.LogRecord) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(lines, "emit", full)
    make.claim(task.job)
    task.refresh_from_db()
    assert task.status == "ready"


def test_a_promotion_names_both_tiers(lines: Lines) -> None:
    task = make.single(priority="low")
    make.claim(task.job)
    move("promote", [task], priority="medium")
    promoted = lines.of(task)[-1]
    assert (promoted["event"], promoted["from_tier"], promoted["tier"]) == ("task_promoted", "low", "medium")
    assert task.events.filter(transition="promote").count() == 1


def test_the_orchestrator_that_is_slower_logs_that_the_job_is_claimed_or_cancelled(lines: Lines) -> None:
    task = make.single()
    make.claim(task.job)
    make.claim(task.job)
    claimed, refused = (row for row in lines.rows if row["event"] not in ("job_submitted", "task_ready"))
    assert (claimed["event"], refused["event"]) == ("job_claimed", "job_already_claimed_or_cancelled")
    assert (refused["job_id"], refused["trace_id"]) == (task.job_id, task.job.trace_id)


def test_for_debugging_a_move_that_another_process_made_is_a_line(debugged: Lines) -> None:
    task = make.single()
    make.claim(task.job)
    assert move("make_ready", [task]) == []
    assert move("due", [task]) == []
    assert debugged.events(task) == ["task_ready", "dependent_already_claimed", "transition_refused"]
    assert debugged.of(task)[-1]["transition"] == "due"


def test_a_batch_of_tasks_is_one_record_with_a_line_each(caplog: pytest.LogCaptureFixture) -> None:
    submit_many([Request(single_task("echo")) for _ in range(3)], project=make.project())
    make.claim(*Job.objects.all())
    ready = [record for record in caplog.records if record.message.startswith("task_ready")]
    assert [record.message for record in ready] == ["task_ready and 2 more"]
    assert len(task_log.rows_of(ready[0])) == 3

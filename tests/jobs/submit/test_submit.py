"""Accepting jobs: one transaction, idempotent by key, and without Redis."""

import re
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from pytest_django import Settings

from dalston_queue.ids import uuid7
from dalston_queue.jobs.errors import IdempotencyConflict, InvalidJob
from dalston_queue.jobs.submit.spec import JobSpec, StageSpec, single_task
from dalston_queue.jobs.submit.submit import Request, Submission, submit, submit_many
from dalston_queue.models import IdempotencyKey, Job, Task
from tests.jobs import make
from tests.jobs.together import at_once

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_hints")]


def test_a_single_task_is_a_job_of_one_with_the_defaults_of_its_priority() -> None:
    submission = submit(single_task("echo", priority="high", parameters={"a": 1}), project=make.project())
    task = Task.objects.select_related("job").get(job_id=submission.job_id)
    assert submission == Submission(task.job_id, (task.id,), created=True)
    assert (task.stage, task.queue, task.task_type, task.status) == ("echo", "echo", "echo", "pending")
    assert (task.priority, task.effective_priority, task.max_retries, task.timeout_seconds) == ("high", "high", 5, 300)
    assert (task.parameters, task.job.status, task.job.name) == ({"a": 1}, "pending", "echo")
    assert re.fullmatch("[0-9a-f]{32}", task.job.trace_id)


def test_a_dag_is_stored_with_its_dependencies_queues_and_options() -> None:
    job = make.job_of(
        StageSpec(stage="prepare"),
        StageSpec(
            stage="transcribe_ch0", after=("prepare",), required_capabilities=("gpu", "a100", "gpu"), max_retries=0
        ),
        StageSpec(stage="merge", after=("transcribe_ch0", "prepare"), required=False, weight=2.5, timeout_seconds=5),
    )
    rows = {task.stage: task for task in job.tasks.all()}
    assert rows["transcribe_ch0"].queue == "transcribe"
    assert rows["transcribe_ch0"].required_capabilities == ["a100", "gpu"]
    assert rows["transcribe_ch0"].max_retries == 0
    assert (rows["merge"].after, rows["merge"].required) == (["transcribe_ch0", "prepare"], False)
    assert (rows["merge"].weight, rows["merge"].timeout_seconds) == (2.5, 5)


def test_the_database_refuses_a_second_task_of_a_stage() -> None:
    """Whichever process makes it: the orchestrators share no lock of ours here."""
    task = make.single()
    twin = Task.objects.get(pk=task.pk)
    twin.pk = uuid7()
    with pytest.raises(IntegrityError, match="one_task_per_stage"), transaction.atomic():
        twin.save(force_insert=True)


def test_a_bad_dag_leaves_nothing_behind() -> None:
    with pytest.raises(InvalidJob):
        make.dag(a="b", b="a")
    assert not Job.objects.exists()


@pytest.mark.parametrize("parameters", [{"a": "\x00"}, {"a": float("nan")}, {"a": object()}])
def test_parameters_that_postgres_cannot_hold_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidJob, match="the parameters of stage 'echo'"):
        submit(single_task("echo", parameters=parameters), project=make.project())


@pytest.mark.parametrize("text", ["C:\\u0000dir", "\\\\u0000", "u0000"])
def test_what_only_looks_like_a_nul_in_json_is_stored_as_it_is(text: str) -> None:
    submission = submit(single_task("echo", parameters={text: text}), project=make.project())
    assert Task.objects.get(job_id=submission.job_id).parameters == {text: text}


@pytest.mark.parametrize("text", ["\x00", "\\\x00", "a\\\\\x00"])
def test_a_nul_behind_backslashes_is_found(text: str) -> None:
    with pytest.raises(InvalidJob, match=r"U\+0000"):
        submit(single_task("echo", parameters={text: 1}), project=make.project())


def test_the_same_key_and_body_is_the_same_job() -> None:
    first = submit(single_task("echo"), project=make.project(), idempotency_key="k")
    again = submit(single_task("echo", trace_id="other"), project=make.project(), idempotency_key="k")
    assert again == Submission(first.job_id, first.task_ids, created=False)
    assert Job.objects.count() == 1


def test_the_same_key_with_another_body_is_a_conflict_that_names_the_job() -> None:
    first = submit(single_task("echo"), project=make.project(), idempotency_key="k")
    with pytest.raises(IdempotencyConflict, match=f"send the same body as for job {first.job_id}"):
        submit(single_task("echo", parameters={"a": 1}), project=make.project(), idempotency_key="k")


def test_a_key_belongs_to_one_project() -> None:
    submit(single_task("echo"), project=make.project("one"), idempotency_key="k")
    assert submit(single_task("echo"), project=make.project("two"), idempotency_key="k").created


def test_a_key_past_its_window_is_free_again(settings: Settings) -> None:
    submit(single_task("echo"), project=make.project(), idempotency_key="k")
    IdempotencyKey.objects.update(expires_at=make.NOW - timedelta(days=1))
    assert submit(single_task("echo", parameters={"a": 1}), project=make.project(), idempotency_key="k").created


def test_in_a_batch_each_job_is_accepted_or_refused_alone_and_the_answers_are_in_order() -> None:
    bad = JobSpec(name="bad", stages=(StageSpec(stage="a", after=("a",)),))
    outcomes = submit_many(
        [
            Request(single_task("echo")),
            Request(bad),
            Request(single_task("sleep"), "k"),
            Request(single_task("sleep"), "k"),
        ],
        project=make.project(),
    )
    assert isinstance(outcomes[0], Submission)
    assert isinstance(outcomes[1], InvalidJob)
    assert isinstance(outcomes[2], Submission)
    assert isinstance(outcomes[3], Submission)
    assert outcomes[3].job_id == outcomes[2].job_id
    assert [outcomes[2].created, outcomes[3].created] == [True, False]
    assert Job.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_fifty_requests_at_once_with_one_key_make_one_job() -> None:
    post = partial(submit, single_task("echo"), project=make.project(), idempotency_key="k")
    outcomes = at_once(*[post] * 50)
    assert len({outcome.job_id for outcome in outcomes}) == 1
    assert sum(outcome.created for outcome in outcomes) == 1
    assert (Job.objects.count(), Task.objects.count()) == (1, 1)

"""The DAG of a job: names, dependencies, cycles; and what the states of its tasks mean for the job."""

import pytest

from dalston_queue.jobs.errors import InvalidJob
from dalston_queue.jobs.lifecycle import dag
from dalston_queue.jobs.lifecycle.dag import Tally, verdict
from dalston_queue.jobs.lifecycle.states import JobStatus
from dalston_queue.jobs.submit.spec import StageSpec


def stages(**after: str) -> list[StageSpec]:
    return [StageSpec(stage=name, after=tuple(parents.split())) for name, parents in after.items()]


def refusal(wanted: list[StageSpec]) -> str:
    with pytest.raises(InvalidJob) as refused:
        dag.check(wanted)
    return str(refused.value)


def test_a_diamond_is_fine() -> None:
    dag.check(stages(a="", b="a", c="a", d="b c"))


def test_a_chain_of_200_is_fine_and_201_is_refused() -> None:
    chain = [StageSpec(stage=f"s{n}", after=(f"s{n - 1}",) if n else ()) for n in range(201)]
    dag.check(chain[:200])
    assert refusal(chain) == "a job has at most 200 stages; this one would have 201"


def test_a_cycle_is_refused_with_its_path() -> None:
    assert refusal(stages(a="c", b="a", c="b", d="a")) == "these stages wait for each other: a -> c -> b -> a"


def test_a_stage_that_waits_for_itself_is_a_cycle() -> None:
    assert refusal(stages(a="a")) == "these stages wait for each other: a -> a"


def test_an_unknown_parent_is_named() -> None:
    assert refusal(stages(a="", b="x")) == "the stage 'b' waits for 'x', which is no stage of this job"


def test_a_repeated_stage_is_named() -> None:
    assert refusal([StageSpec(stage="a"), StageSpec(stage="a")]) == "the stage 'a' is named twice"


@pytest.mark.parametrize(
    ("stage", "fault"),
    [
        (StageSpec(stage="Bad"), "stage name 'Bad'"),
        (StageSpec(stage="a", queue="a:b"), "queue 'a:b'"),
        (StageSpec(stage="a", required_capabilities=("GPU",)), "capability 'GPU'"),
        (StageSpec(stage="a", weight=0), "weight of stage 'a' is 0"),
        (StageSpec(stage="a", timeout_seconds=0), "timeout of stage 'a' is 0 s"),
        (StageSpec(stage="a", max_retries=101), "max_retries of stage 'a' is 101"),
    ],
)
def test_a_bad_value_is_refused_and_named(stage: StageSpec, fault: str) -> None:
    assert fault in refusal([stage])


def test_no_stages_at_all_are_refused() -> None:
    assert refusal([]) == "a job needs at least one stage"


@pytest.mark.parametrize(
    ("stage", "queue"),
    [
        (StageSpec(stage="transcribe_ch0"), "transcribe"),
        (StageSpec(stage="transcribe_ch12"), "transcribe"),
        (StageSpec(stage="ch0"), "ch0"),
        (StageSpec(stage="merge"), "merge"),
        (StageSpec(stage="transcribe_ch0", queue="other"), "other"),
    ],
)
def test_the_queue_is_the_stage_without_its_channel(stage: StageSpec, queue: str) -> None:
    assert dag.queue_of(stage) == queue


@pytest.mark.parametrize(
    ("tally", "expected"),
    [
        (("running", 0, 0, 0, 0), "complete"),
        (("running", 1, 0, 0, 0), None),
        (("running", 0, 1, 0, 0), None),
        (("running", 3, 0, 1, 0), "fail"),
        (("running", 3, 2, 1, 0), "wind_down"),
        (("running", 3, 0, 0, 1), "cancel"),
        (("cancelling", 0, 2, 0, 0), None),
        (("cancelling", 0, 0, 0, 1), "cancel"),
        (("cancelling", 1, 0, 0, 0), "cancel"),
        (("cancelling", 0, 0, 0, 0), "complete"),
        (("cancelling", 0, 0, 1, 2), "fail"),
        (("pending", 3, 0, 0, 0), None),
        (("completed", 0, 0, 0, 0), None),
    ],
)
def test_what_the_tasks_mean_for_the_job(tally: tuple[str, int, int, int, int], expected: str | None) -> None:
    status, waiting, at_engine, died, cancelled = tally
    assert verdict(Tally(JobStatus(status), 5, waiting, at_engine, died, cancelled, completed=1)) == expected


def test_a_cancelled_job_in_which_nothing_completed_is_cancelled_even_if_nothing_of_it_was_required() -> None:
    assert verdict(Tally(JobStatus.CANCELLING, 2, waiting=0, at_engine=0, died=0, cancelled=0, completed=0)) == "cancel"


def test_a_job_without_tasks_fails() -> None:
    assert verdict(Tally(JobStatus.RUNNING, 0, 0, 0, 0)) == "fail"

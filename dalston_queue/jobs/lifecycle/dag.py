"""The DAG of a job, pure: which stages are valid, and what the tasks' states mean for the job."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dalston_queue.broker.protocol.keys import NAME
from dalston_queue.jobs.errors import InvalidJob
from dalston_queue.jobs.lifecycle.states import JobStatus
from dalston_queue.jobs.submit.spec import StageSpec

MAX_STAGES = 200
CONCURRENCY_KEY = re.compile(r"[!-~]([ -~]{0,78}[!-~])?")
STAGE = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_CHANNEL = re.compile(r"_ch[0-9]+$")


def queue_of(stage: StageSpec) -> str:
    """The queue of a stage: the one it names, else its own name without a channel (`transcribe_ch0`: `transcribe`)."""
    return stage.queue or _CHANNEL.sub("", stage.stage)


def check(stages: Sequence[StageSpec], existing: Collection[str] = ()) -> None:
    """Raises InvalidJob, naming the stage, if they can't make a DAG. `existing` are stages that the job already has."""
    if not stages:
        raise InvalidJob("a job needs at least one stage")
    if len(stages) + len(existing) > MAX_STAGES:
        raise InvalidJob(f"a job has at most {MAX_STAGES} stages; this one would have {len(stages) + len(existing)}")
    names = set(existing)
    for stage in stages:
        _check_stage(stage)
        if stage.stage in names:
            raise InvalidJob(f"the stage {stage.stage!r} is named twice")
        names.add(stage.stage)
    for stage in stages:
        for parent in stage.after:
            if parent not in names:
                raise InvalidJob(f"the stage {stage.stage!r} waits for {parent!r}, which is no stage of this job")
    if cycle := _cycle({stage.stage: stage.after for stage in stages}):
        raise InvalidJob(f"these stages wait for each other: {' -> '.join(cycle)}")


def check_concurrency_key(key: str, whose: str) -> None:
    """Raises InvalidJob. `*` is no key: in a limit it stands for each key."""
    if key and (key == "*" or not CONCURRENCY_KEY.fullmatch(key)):
        raise InvalidJob(
            f"the concurrency_key {key[:100]!r} of {whose} is no key: a key has 1 to 80 printable ASCII characters, no "
            "space at an end, and is not *"
        )


def _check_stage(stage: StageSpec) -> None:
    if not STAGE.fullmatch(stage.stage):
        raise InvalidJob(f"the stage name {stage.stage!r} doesn't match {STAGE.pattern}")
    if not NAME.fullmatch(queue_of(stage)):
        raise InvalidJob(f"the queue {queue_of(stage)!r} of stage {stage.stage!r} doesn't match {NAME.pattern}")
    for capability in stage.required_capabilities:
        if not NAME.fullmatch(capability):
            raise InvalidJob(f"the capability {capability!r} of stage {stage.stage!r} doesn't match {NAME.pattern}")
    if not stage.weight > 0:
        raise InvalidJob(f"the weight of stage {stage.stage!r} is {stage.weight:g}; it must be above 0")
    check_concurrency_key(stage.concurrency_key or "", f"stage {stage.stage!r}")
    if stage.timeout_seconds is not None and stage.timeout_seconds < 1:
        raise InvalidJob(f"the timeout of stage {stage.stage!r} is {stage.timeout_seconds} s; it must be at least 1 s")
    if stage.max_retries is not None and not 0 <= stage.max_retries <= 100:
        raise InvalidJob(f"max_retries of stage {stage.stage!r} is {stage.max_retries}; it must be from 0 to 100")


def _cycle(after: dict[str, tuple[str, ...]]) -> list[str] | None:
    """One cycle, as a path that ends where it began, or None."""
    left = {name: {parent for parent in parents if parent in after} for name, parents in after.items()}
    while free := [name for name, parents in left.items() if not parents]:
        for name in free:
            del left[name]
        for parents in left.values():
            parents.difference_update(free)
    if not left:
        return None
    # Each stage left waits for another one left, so going upwards must return to a stage already passed.
    path = [min(left)]
    while (parent := min(left[path[-1]])) not in path:
        path.append(parent)
    return [*path[path.index(parent) :], parent]


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of the tasks of one job."""

    status: JobStatus
    total: int
    waiting: int  # pending, scheduled or ready
    at_engine: int  # queued or running
    died: int  # required and dead_letter
    cancelled: int = 0  # required and cancelled
    completed: int = 0


def verdict(tally: Tally) -> str | None:
    """The job transition that this tally asks for, or None. After `wind_down` the caller skips the waiting tasks."""
    ending_early = tally.status is JobStatus.CANCELLING or tally.died + tally.cancelled > 0
    if tally.status not in (JobStatus.RUNNING, JobStatus.CANCELLING):
        return None
    if tally.total == 0:
        return "fail"
    if not ending_early:
        return "complete" if tally.waiting + tally.at_engine == 0 else None
    if tally.at_engine > 0:
        return "wind_down" if tally.status is JobStatus.RUNNING else None
    if tally.died > 0:
        return "fail"
    # Asked to stop too late: every required task is done, and its results are there.
    in_time = tally.cancelled > 0 or tally.waiting > 0 or tally.completed == 0
    return "cancel" if in_time else "complete"

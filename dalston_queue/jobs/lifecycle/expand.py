"""Adds the stages that a stage's result asks for: `{"$stages": [{"stage": "transcribe_ch1", "after": ["split"]}, …]}`.

They are checked and made by the same code as those of a submission, in the transaction that completes the stage which
asked. A request that can't be met makes that stage a dead letter: its result can't be acted on.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from dalston_queue.broker.protocol.types import Priority
from dalston_queue.jobs.errors import InvalidJob
from dalston_queue.jobs.lifecycle import dag
from dalston_queue.jobs.submit.rows import NewTask
from dalston_queue.jobs.submit.spec import StageSpec, stage_from
from dalston_queue.jobs.submit.submit import task_row
from dalston_queue.models import Job, Task

KEY = "$stages"


def wanted_stages(result: object) -> Sequence[StageSpec]:
    """The stages that a result asks for; none for an ordinary result. Raises InvalidJob."""
    if not isinstance(result, Mapping) or KEY not in result:
        return ()
    wanted = result[KEY]
    if not isinstance(wanted, list) or not wanted:
        raise InvalidJob(f"{KEY} is a list of stages, with at least one")
    return [stage_from(stage) for stage in wanted]


def added_tasks(job_id: UUID, stages: Sequence[StageSpec]) -> list[NewTask]:
    """The rows of these stages, ready to insert; none if the job is gone. The job is locked. Raises InvalidJob for what
    doesn't fit the job as it is, or can't be stored. Advancing the job releases those that wait for nothing."""
    priority = Job.objects.filter(id=job_id).values_list("priority", flat=True).first()
    if priority is None:
        return []
    dag.check(stages, set(Task.objects.filter(job_id=job_id).values_list("stage", flat=True)))
    return [task_row(stage, job_id, Priority(priority)) for stage in stages]

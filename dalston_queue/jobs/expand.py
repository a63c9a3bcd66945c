"""Adds the stages that a stage's result asks for: `{"$stages": [{"stage": "transcribe_ch1", "after": ["split"]}, …]}`.

They are checked and made by the same code as those of a submission, in the transaction that completes the stage which
asked. A request that can't be met makes that stage a dead letter: its result can't be acted on.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from dalston_queue.broker.types import Priority
from dalston_queue.jobs import dag
from dalston_queue.jobs.errors import InvalidJob
from dalston_queue.jobs.rows import insert_tasks
from dalston_queue.jobs.spec import StageSpec, stage_from
from dalston_queue.jobs.submit import task_row
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


def check_addition(job_id: UUID, stages: Sequence[StageSpec]) -> None:
    """Refuse stages that don't fit the job as it is. The job is locked."""
    dag.check(stages, set(Task.objects.filter(job_id=job_id).values_list("stage", flat=True)))


def add_stages(job_id: UUID, stages: Sequence[StageSpec], now: datetime) -> None:
    """Add checked stages. Advancing the job releases those that wait for nothing."""
    priority = Priority(Job.objects.values_list("priority", flat=True).get(id=job_id))
    insert_tasks([task_row(stage, job_id, priority) for stage in stages], now)

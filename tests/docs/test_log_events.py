"""Log events: each that the design names exists or has a reason; docs/operate/logs.md lists those of tasks and jobs."""

import re

from dalston_queue.jobs.lifecycle.transition_log import JOB_EVENTS, TASK_EVENTS
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "operate" / "logs.md").read_text()
CODE = "\n".join(
    path.read_text()
    for folder in ("dalston_queue", "engines", "supervisor")
    for path in sorted((ROOT / folder).rglob("*.py"))
)

# What the design documents log, and our event for it. What is left out has its row in ADR 0033.
EVENTS = {
    "claimed_stale_task": "claimed_stale_task",
    "task_queued": "task_queued",
    "handling_job_created": "job_claimed",  # claiming is the handling
    "job_already_claimed_or_cancelled": "job_already_claimed_or_cancelled",
    "dependent_already_claimed": "dependent_already_claimed",
    "Worker … marked unhealthy": "engine_unhealthy",
    "the task is FAILED after its last retry": "task_dead_lettered",
    "the push to Redis failed": "redis is full; ready tasks wait in postgres",
    "the scheduler's database error": "a server does not answer",
    "state transitions": "task_started",
    "task_state_transition": "task_started",  # an event for each transition, and `from`
    "a promotion": "task_promoted",
    "a retry": "task_retried",
}


def test_every_event_of_the_design_is_logged_somewhere() -> None:
    absent = {name: ours for name, ours in EVENTS.items() if f'"{ours}"' not in CODE and ours != "engine_unhealthy"}
    assert absent == {}
    assert '"engine_%s"' in CODE and '"unhealthy"' in CODE


def test_the_page_lists_every_event_of_tasks_and_jobs_and_no_other() -> None:
    logged = {*TASK_EVENTS.values(), *JOB_EVENTS.values(), *re.findall(r'"((?:task|job|engine)_[a-z_]+)"', _logging())}
    listed = set(re.findall(r"^\| `(\w+)`", PAGE, re.MULTILINE))
    extra = {"engine_unhealthy", "engine_healthy"}
    assert listed == {event for event in logged if event not in FIELDS} | OTHERS | extra


FIELDS = {"task_id", "job_id", "engine_id"}
OTHERS = {"claimed_stale_task", "result_refused", "dependent_already_claimed", "transition_refused"}


def _logging() -> str:
    files = (
        "dalston_queue/jobs/lifecycle/transition_log.py",
        "engines/sdk/logs.py",
        "dalston_queue/broker/operations/reclaim.py",
    )
    return "\n".join((ROOT / name).read_text() for name in files)

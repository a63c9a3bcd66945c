"""The transition tables are complete and consistent, and the page drawn from them is up to date."""

import re
from pathlib import Path

from dalston_queue.jobs.lifecycle.states import (
    JOB_OVER,
    JOB_TRANSITIONS,
    TASK_OVER,
    TASK_TRANSITIONS,
    JobStatus,
    TaskStatus,
)
from dalston_queue.jobs.lifecycle.status import _JOB_WRITES, _WRITES
from tests.tools import lifecycle_page as drawing

ROOT = Path(__file__).resolve().parents[3]


def test_every_state_that_is_not_the_end_can_be_left() -> None:
    left = {source for move in TASK_TRANSITIONS.values() for source in move.sources}
    assert set(TaskStatus) - left == {TaskStatus.COMPLETED, TaskStatus.FAILED}
    left = {source for move in JOB_TRANSITIONS.values() for source in move.sources}
    assert set(JobStatus) - left == {JobStatus.COMPLETED, JobStatus.CANCELLED}


def test_every_state_but_the_first_can_be_reached() -> None:
    assert {move.target for move in TASK_TRANSITIONS.values()} == set(TaskStatus)
    assert {move.target for move in JOB_TRANSITIONS.values()} == set(JobStatus) - {JobStatus.PENDING}


def test_only_an_operator_reopens_what_is_over() -> None:
    for table, over in ((TASK_TRANSITIONS, TASK_OVER), (JOB_TRANSITIONS, JOB_OVER)):
        backwards = [move for move in table.values() if move.sources & over]
        assert all(move.mover.startswith("operator:") for move in backwards)


def test_the_writer_knows_what_each_move_writes() -> None:
    assert _WRITES.keys() == TASK_TRANSITIONS.keys()
    assert _JOB_WRITES.keys() == JOB_TRANSITIONS.keys()


def test_only_the_status_module_writes_a_status() -> None:
    """Searches the code for every way to do it: SQL that sets it, the ORM's update and save, an assignment."""
    writes = re.compile(
        r"SET\s+(?:\w+\s*=[^;]*?,\s*)?status\s*="  # UPDATE ... SET status =
        r"|update\([^)]*\bstatus\s*="
        r"|\b(?:job|task)\.status\s*=(?!=)"
        r"|update_fields=[^)]*[\"']status[\"']"
        r"|bulk_update\([^)]*[\"']status[\"']",
        re.IGNORECASE,
    )
    guilty = [
        str(path.relative_to(ROOT))
        for folder in ("dalston_queue", "dalston_site", "supervisor", "engines")
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "status.py" and "migrations" not in path.parts and writes.search(path.read_text())
    ]
    assert guilty == []


def test_the_page_in_docs_is_what_the_code_draws() -> None:
    assert (ROOT / "docs" / "lifecycle.md").read_text() == drawing.page(), (
        "run: python -m tests.tools.lifecycle_page > docs/lifecycle.md"
    )

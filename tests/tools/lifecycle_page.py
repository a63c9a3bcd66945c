"""Draws docs/lifecycle.md from the transition tables: `python -m tests.tools.lifecycle_page`.

A test compares the page with what this draws, so the page can't be wrong.
"""

import inspect
import re
import sys
from enum import StrEnum

from dalston_queue.jobs.lifecycle import states
from dalston_queue.jobs.lifecycle.states import JOB_TRANSITIONS, TASK_TRANSITIONS, JobStatus, TaskStatus, Transition

_INTRO = """# The lifecycle of jobs and tasks

Drawn from `dalston_queue/jobs/lifecycle/states.py` by `python -m tests.tools.lifecycle_page`; a test
compares. Only `dalston_queue/jobs/lifecycle/status.py` changes a status, and only along these transitions. Each
transition of a task writes a row of its history (`TaskEvent`) in the same statement.
"""


def page() -> str:
    parts = [_INTRO]
    for title, kind, table in (("Task", TaskStatus, TASK_TRANSITIONS), ("Job", JobStatus, JOB_TRANSITIONS)):
        parts.append(f"## {title}\n\n{_picture(table)}\n\n{_states(kind)}\n\n{_moves(table)}\n")
    return "\n".join(parts)


def _picture(table: dict[str, Transition]) -> str:
    arrows: dict[tuple[str, str], list[str]] = {}
    for move in table.values():
        for source in sorted(move.sources):
            arrows.setdefault((source, move.target), []).append(move.name)
    lines = [f"    {source} --> {target}: {', '.join(names)}" for (source, target), names in arrows.items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def _states(kind: type[StrEnum]) -> str:
    rows = [f"| `{member.value}` | {_docstring(kind, member)} |" for member in kind]
    return "\n".join(["| status | meaning, and which process moves it on |", "|---|---|", *rows])


def _docstring(kind: type[StrEnum], member: StrEnum) -> str:
    """The string under the member. Python keeps none for enum members, so it is read from the source."""
    found = re.search(rf'class {kind.__name__}\b.*?\b{member.name} = "[^"]*"\n    """(.*?)"""', _SOURCE, re.DOTALL)
    if found is None:
        raise ValueError(f"{kind.__name__}.{member.name} has no docstring")
    return " ".join(found[1].split())


def _moves(table: dict[str, Transition]) -> str:
    rows = [
        f"| {move.name} | {_code(sorted(move.sources))} | `{move.target}` | {move.mover} |" for move in table.values()
    ]
    return "\n".join(["| transition | from | to | made by, when |", "|---|---|---|---|", *rows])


def _code(words: list[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


_SOURCE = inspect.getsource(states)

if __name__ == "__main__":
    sys.stdout.write(page())

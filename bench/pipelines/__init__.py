"""One file per system that `./dev bench pipeline` measures: from a submit to "completed" in Postgres.

Each is run in processes of its own, `python -m bench.pipelines.run NAME prepare | work | submit COUNT`, with the
servers in DATABASE_URL and REDIS_URL. The docstring of its file says how it is configured; the table quotes its first
paragraph.
"""

import ast
from pathlib import Path
from typing import LiteralString, Protocol


class Pipeline(Protocol):
    def prepare(self) -> None:
        """Make the tables."""

    def work(self) -> None:
        """Be the worker, until killed. With several processes, start the others and be the last."""

    def submit(self, count: int) -> None:
        """Submit so many no-op tasks, as fast as one client can: in batches where there is an API for it."""


NAMES = ("celery", "procrastinate")

COMPLETED: dict[str, LiteralString] = {
    "dalston": "SELECT count(*) FROM dalston_task WHERE status = 'completed'",
    "celery": "SELECT count(*) FROM django_celery_results_taskresult WHERE status = 'SUCCESS'",
    "procrastinate": "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'",
}
"""How many tasks Postgres knows to be completed."""

AUDIT: dict[str, LiteralString] = {
    "dalston": "SELECT count(*) FROM dalston_task_event",
    "procrastinate": "SELECT count(*) FROM procrastinate_events",
}
"""How many rows of history were written on the way."""


def settings_of(name: str) -> str:
    source = (Path(__file__).parent / f"{name}.py").read_text()
    documentation = ast.get_docstring(ast.parse(source)) or name
    return " ".join(documentation.partition("\n\n")[0].split())

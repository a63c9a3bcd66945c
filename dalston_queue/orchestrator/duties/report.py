"""The report of one run of a duty, and the row that records it."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from dalston_queue.broker.errors import WrongKeyType
from dalston_queue.models import Duty


@dataclass(slots=True)
class Report:
    repaired: int = 0
    found: "Counter[str]" = field(default_factory=Counter)

    def note(self, kind: str, count: int = 1, *, repaired: bool = True) -> None:
        """Count what was found, and whether it was repaired."""
        if count:
            self.found[kind] += count
            self.repaired += count if repaired else 0


def for_each(queues: Iterable[str], run: Callable[[str], None]) -> None:
    """Call `run` for each queue. The error of a queue with a key of a wrong type is raised after the last queue."""
    wrong_type: WrongKeyType | None = None
    for queue in queues:
        try:
            run(queue)
        except WrongKeyType as error:
            wrong_type = error
    if wrong_type:
        raise wrong_type


def record_run(
    name: str,
    started: datetime,
    duration_ms: int,
    report: Report,
    problem: str = "",
    *,
    every_s: float,
    holder: str,
) -> None:
    """Record the last run of a duty; `problem` is the error it ended with."""
    row = Duty.objects.filter(name=name).first() or Duty(name=name)
    row.every_s = every_s
    row.last_run_at = started
    row.duration_ms = duration_ms
    row.repaired = report.repaired
    row.total_repaired += report.repaired
    row.report = dict(report.found)
    row.last_error = problem
    row.failures = row.failures + 1 if problem else 0
    row.holder = holder
    row.save()

"""One run of a task on a page: how it ended, or that it goes on, in words and as a tone."""

from __future__ import annotations

from dalston_queue.dashboard.parts.words import words_for
from dalston_queue.jobs.queries.timeline import Run, RunOutcome

_TONES = {
    RunOutcome.COMPLETED: "ok",
    RunOutcome.RETRIED: "wait",
    RunOutcome.RECOVERED: "wait",
    RunOutcome.REBUILT: "wait",
    RunOutcome.FAILED: "bad",
    RunOutcome.DEAD_LETTER: "bad",
    RunOutcome.CANCELLED: "",
}


def outcome_tone(run: Run) -> str:
    return "busy" if run.outcome is None else _TONES[run.outcome]


def outcome_words(run: Run) -> str:
    if run.outcome is None:
        return "runs"
    spent = words_for(run.started_at, run.finished_at)
    took = f" after {spent}" if spent else ""
    said = f": {run.message[:200]}" if run.message else ""
    return f"{run.outcome.replace('_', ' ')}{took}{said}"

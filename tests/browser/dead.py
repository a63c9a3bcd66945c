"""Dead letters and jobs for journeys, and the orchestrator that nobody else plays here."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from dalston_queue.jobs.operator.replay_batches import run_due_batches
from dalston_queue.models import DeadLetter, Job, Task
from tests.jobs import make


def dead_letter(error: str = "no audio track in a.wav", fingerprint: str = "f1", **more: Any) -> DeadLetter:
    """A task that died, as the orchestrator leaves it behind."""
    task, now = make.single("echo", parameters={"file": "a.wav"}), timezone.now()
    Job.objects.filter(pk=task.job_id).update(status="failed", finished_at=now)
    Task.objects.filter(pk=task.pk).update(status="dead_letter", finished_at=now)
    fields = {"cause": "error", "created_at": now, "task_type": "echo", "attempt": 1} | more
    return DeadLetter.objects.create(task=task, queue="echo", error=error, fingerprint=fingerprint, **fields)


def when_due() -> None:
    """What an orchestrator does when the time to undo is over."""
    run_due_batches(timezone.now() + timedelta(hours=2))

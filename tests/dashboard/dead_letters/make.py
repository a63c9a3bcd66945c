"""Dead letters for tests, and the text of their pages."""

from __future__ import annotations

from typing import Any

from django.test import Client
from django.utils import timezone

from dalston_queue.models import DeadLetter, Job, Task
from tests.jobs import make

PAGE = "/dead-letters/"


def make_dead_letter(
    error: str = "no audio track", fingerprint: str = "f1", queue: str = "echo", **more: Any
) -> DeadLetter:
    """A task that died, as the orchestrator leaves it behind."""
    task, now = make.single(queue, parameters={"file": "a.wav"}), timezone.now()
    Job.objects.filter(pk=task.job_id).update(status="failed", finished_at=now)
    Task.objects.filter(pk=task.pk).update(status="dead_letter", finished_at=now)
    fields = {"cause": "error", "created_at": now, "task_type": queue, "attempt": 1} | more
    return DeadLetter.objects.create(task=task, queue=queue, error=error, fingerprint=fingerprint, **fields)


def text_of(client: Client, path: str = PAGE) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()

"""One move of one task, written in the same statement as the move itself. Never changed, only expired."""

from django.db import models

from dalston_queue.jobs.lifecycle.states import TaskStatus
from dalston_queue.models.fields import choices
from dalston_queue.models.task import Task


class TaskEvent(models.Model):
    id = models.BigAutoField(primary_key=True)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="events", db_index=False)
    transition = models.CharField(max_length=12, help_text="its name in the transition table")
    from_status = models.CharField(max_length=12, choices=choices(TaskStatus))
    to_status = models.CharField(max_length=12, choices=choices(TaskStatus))
    attempt = models.PositiveIntegerField(help_text="the attempt after the move")
    deliveries = models.PositiveSmallIntegerField()
    engine_id = models.CharField(max_length=200, blank=True, default="")
    cause = models.CharField(max_length=20, blank=True, default="")
    message = models.TextField(blank=True, default="")
    at = models.DateTimeField()

    class Meta:
        db_table = "dalston_task_event"
        # A task's history: WHERE task_id = %s ORDER BY id
        indexes = [models.Index(fields=["task", "id"], name="event_by_task")]

    def __str__(self) -> str:
        return f"{self.from_status} -> {self.to_status} (attempt {self.attempt})"

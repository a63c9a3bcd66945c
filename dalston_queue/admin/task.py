"""Tasks and, on a task's page, its history."""

from django.contrib import admin

from dalston_queue.admin.base import AnyTabularInline, ReadOnly, TableAdmin
from dalston_queue.models import Task, TaskEvent


class HistoryOfTask(ReadOnly, AnyTabularInline):
    model = TaskEvent
    fields = ["at", "from_status", "to_status", "attempt", "deliveries", "engine_id", "cause", "message"]
    ordering = ["id"]
    verbose_name_plural = "history"
    extra = 0


@admin.register(Task)
class TaskAdmin(ReadOnly, TableAdmin):
    list_display = ["id", "task_type", "queue", "status", "priority", "attempt", "assigned_worker_id", "created_at"]
    list_filter = ["status", "priority"]
    search_fields = ["task_type__startswith", "queue__startswith"]
    search_help_text = "A task's or job's id, or the start of a type or queue."
    id_fields = ("pk", "job_id")
    ordering = ["-id"]
    raw_id_fields = ["job"]
    inlines = [HistoryOfTask]

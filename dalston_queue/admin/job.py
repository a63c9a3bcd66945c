"""Jobs and, on a job's page, its tasks."""

from django.contrib import admin

from dalston_queue.admin.base import AnyTabularInline, ReadOnly, TableAdmin
from dalston_queue.models import Job, Task


class TasksOfJob(ReadOnly, AnyTabularInline):
    model = Task
    fields = ["stage", "queue", "status", "attempt", "retry_count", "assigned_worker_id", "started_at", "finished_at"]
    readonly_fields = ["status"]
    ordering = ["id"]
    show_change_link = True
    extra = 0


@admin.register(Job)
class JobAdmin(ReadOnly, TableAdmin):
    list_display = ["id", "name", "project", "status", "priority", "created_at", "finished_at"]
    list_filter = ["status", "priority", "project"]
    list_select_related = ["project"]
    search_fields = ["name__startswith", "trace_id__exact"]
    search_help_text = "A job's or task's id, the start of a name, or a trace id."
    id_fields = ("pk", "tasks__pk")
    ordering = ["-id"]
    inlines = [TasksOfJob]

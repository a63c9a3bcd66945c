"""Admin pages of the work: jobs, tasks, dead letters, replay batches, schedules, webhook deliveries."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from dalston_queue.accounts.roles import may_operate, person
from dalston_queue.admin.base import AnyTabularInline, AuditedAdmin, ReadOnly, TableAdmin
from dalston_queue.audit.record import audited
from dalston_queue.jobs.webhooks.deliveries import send_again
from dalston_queue.models import DeadLetter, Job, ReplayBatch, Schedule, Task, TaskEvent, WebhookDelivery


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


@admin.register(DeadLetter)
class DeadLetterAdmin(ReadOnly, TableAdmin):
    list_display = ["id", "queue", "task_type", "cause", "error", "created_at", "replayed_at", "discarded_at"]
    list_filter = ["cause", "created_at", ("replayed_at", admin.EmptyFieldListFilter)]
    search_fields = ["queue__startswith", "fingerprint__exact", "error"]
    search_help_text = "A dead letter's or task's id, the start of a queue, a fingerprint, or words of the error."
    id_fields = ("pk", "task_id")
    ordering = ["-id"]
    raw_id_fields = ["task"]


@admin.register(ReplayBatch)
class ReplayBatchAdmin(ReadOnly, TableAdmin):
    """Batches are made, undone and stopped on the dead letters page or over the API."""

    list_display = ["id", "actor", "state", "matched", "replayed", "already", "refused", "created_at", "finished_at"]
    list_filter = ["state", "created_at"]
    search_fields = ["actor__startswith", "reason"]
    search_help_text = "A batch's id, the start of its actor's name, or words of the reason."
    exclude = ["dead_letter_ids"]  # up to 100 000
    ordering = ["-id"]


@admin.register(Schedule)
class ScheduleAdmin(AuditedAdmin):
    """Schedules are made and changed here. The next tick is computed from the expression."""

    list_display = ["name", "project", "cron", "time_zone", "enabled", "next_at", "last_error"]
    list_filter = ["enabled", "project"]
    list_select_related = ["project"]
    search_fields = ["name__startswith"]
    fields = [
        "project",
        "name",
        "cron",
        "time_zone",
        "priority",
        "stages",
        "enabled",
        "next_at",
        "last_job",
        "last_error",
    ]
    readonly_fields = ["next_at", "last_job", "last_error"]
    ordering = ["name"]


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(ReadOnly, TableAdmin):
    list_display = ["id", "url", "status", "state", "attempts", "next_at", "last_code", "last_error", "delivered_at"]
    list_filter = ["state", "status"]
    search_fields = ["origin__startswith"]
    search_help_text = "A delivery's or job's id, or the start of an address."
    id_fields = ("pk", "job_id")
    ordering = ["-finished_at"]
    raw_id_fields = ["job"]
    actions = ["send_again"]

    @admin.action(description="Send the selected webhooks again now", permissions=["send"])
    def send_again(self, request: HttpRequest, queryset: QuerySet[WebhookDelivery]) -> None:
        due = 0
        for row in queryset:
            before = {"state": row.state, "attempts": row.attempts}
            with audited("webhook.send", str(row.pk), **person(request), before=before) as action:
                again = send_again(row, timezone.now())
                action.after = {"due": again}
            due += again
        self.message_user(request, f"{due} are due now; the others are being sent already.")

    def has_send_permission(self, request: HttpRequest) -> bool:
        return may_operate(request.user)

"""Recurring jobs: made and changed here. The next tick follows from the expression."""

from django.contrib import admin

from dalston_queue.admin.audited import AuditedAdmin
from dalston_queue.models import Schedule


@admin.register(Schedule)
class ScheduleAdmin(AuditedAdmin):
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

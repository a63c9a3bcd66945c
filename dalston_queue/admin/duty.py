"""The recurring duties and when they last ran, and who leads each role. Only to look at."""

from django.contrib import admin

from dalston_queue.admin.base import ReadOnly, TableAdmin
from dalston_queue.models import Duty, Leadership


@admin.register(Duty)
class DutyAdmin(ReadOnly, TableAdmin):
    list_display = [
        "name",
        "last_run_at",
        "every_s",
        "duration_ms",
        "repaired",
        "total_repaired",
        "failures",
        "last_error",
    ]
    ordering = ["name"]


@admin.register(Leadership)
class LeadershipAdmin(ReadOnly, TableAdmin):
    list_display = ["role", "term", "holder", "since"]
    ordering = ["role"]

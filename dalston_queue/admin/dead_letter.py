"""Dead letters: tasks that used up their budgets, and bytes that nobody could read."""

from django.contrib import admin

from dalston_queue.admin.base import ReadOnly, TableAdmin
from dalston_queue.models import DeadLetter


@admin.register(DeadLetter)
class DeadLetterAdmin(ReadOnly, TableAdmin):
    list_display = ["id", "queue", "task_type", "cause", "error", "created_at", "replayed_at", "discarded_at"]
    list_filter = ["cause", "created_at", ("replayed_at", admin.EmptyFieldListFilter)]
    search_fields = ["queue__startswith", "fingerprint__exact", "error"]
    search_help_text = "A dead letter's or task's id, the start of a queue, a fingerprint, or words of the error."
    id_fields = ("pk", "task_id")
    ordering = ["-id"]
    raw_id_fields = ["task"]

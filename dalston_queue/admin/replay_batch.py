"""Orders to take dead letters back. They are made, undone and stopped on the dead letters page or over the API."""

from django.contrib import admin

from dalston_queue.admin.base import ReadOnly, TableAdmin
from dalston_queue.models import ReplayBatch


@admin.register(ReplayBatch)
class ReplayBatchAdmin(ReadOnly, TableAdmin):
    list_display = ["id", "actor", "state", "matched", "replayed", "already", "refused", "created_at", "finished_at"]
    list_filter = ["state", "created_at"]
    search_fields = ["actor__startswith", "reason"]
    search_help_text = "An order's id, the start of who made it, or words of the reason."
    exclude = ["letter_ids"]  # up to 100 000
    ordering = ["-id"]

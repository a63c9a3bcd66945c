"""The audit trail: who did what, to what, and why."""

from django.contrib import admin

from dalston_queue.admin.base import ReadOnly, TableAdmin
from dalston_queue.models import OperatorAction


@admin.register(OperatorAction)
class OperatorActionAdmin(ReadOnly, TableAdmin):
    list_display = ["at", "actor", "action", "target", "reason"]
    list_filter = ["action", "at"]
    search_fields = ["actor__startswith", "target__exact"]
    search_help_text = "The start of an actor's name, or the whole id of what it was done to."
    ordering = ["-id"]
    raw_id_fields = ["user", "token"]

    def get_search_results(self, request, queryset, search_term):  # type: ignore[no-untyped-def]
        # A target is text even when it is an id.
        return admin.ModelAdmin.get_search_results(self, request, queryset, search_term)

"""Admin pages of operations, read-only: the audit trail, duties, leaders, nodes and engines as last seen."""

from django.contrib import admin

from dalston_queue.admin.base import ReadOnly, TableAdmin
from dalston_queue.models import Duty, Engine, Leadership, Node, OperatorAction


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


@admin.register(Node)
class NodeAdmin(ReadOnly, TableAdmin):
    list_display = ["id", "state", "first_seen_at", "last_seen_at"]
    list_filter = ["state"]
    search_fields = ["id__startswith"]
    ordering = ["-last_seen_at"]


@admin.register(Engine)
class EngineAdmin(ReadOnly, TableAdmin):
    list_display = ["id", "node_id", "state", "queues", "capacity", "last_seen_at"]
    list_filter = ["state"]
    search_fields = ["id__startswith", "node_id__startswith"]
    ordering = ["-last_seen_at"]

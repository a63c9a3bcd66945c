"""Nodes and engines as they were last seen; their live state is on the overview."""

from django.contrib import admin

from dalston_queue.admin.base import ReadOnly, TableAdmin
from dalston_queue.models import Engine, Node


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

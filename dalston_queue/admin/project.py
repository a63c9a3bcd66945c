"""Projects: whom jobs and tokens belong to."""

from django.contrib import admin

from dalston_queue.admin.audited import AuditedAdmin
from dalston_queue.models import Project


@admin.register(Project)
class ProjectAdmin(AuditedAdmin):
    list_display = ["name", "created_at"]
    search_fields = ["name"]
    ordering = ["name"]

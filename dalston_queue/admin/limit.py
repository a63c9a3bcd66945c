"""Admin page of limits: set as on the page of limits and over the API, with the same checks and audit entries."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from dalston_queue.accounts.roles import person
from dalston_queue.admin.base import TableAdmin
from dalston_queue.jobs.errors import InvalidLimit
from dalston_queue.jobs.operator.limits import LimitScope, check_numbers, remove_limit, set_limit
from dalston_queue.models import Limit

SCOPE = ["queue", "project", "concurrency_key"]


class LimitForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Limit
        fields = [*SCOPE, "max_in_flight", "starts_per_minute"]

    def clean(self) -> dict[str, Any]:
        found: dict[str, Any] = super().clean() or {}
        limit = Limit(**{name: found.get(name, getattr(self.instance, name)) for name in SCOPE})
        try:
            scope_of(limit).checked()
            check_numbers(scope_of(limit), found.get("max_in_flight"), found.get("starts_per_minute"))
        except InvalidLimit as error:
            if not self.has_error(error.field):  # "3.5" is no number: it has its error
                self.add_error(error.field if error.field in self.fields else None, str(error))
        return found


@admin.register(Limit)
class LimitAdmin(TableAdmin):
    form = LimitForm
    list_display = ["scope", "max_in_flight", "starts_per_minute"]
    list_filter = ["project"]
    list_select_related = ["project"]
    search_fields = ["queue__startswith", "concurrency_key__startswith"]
    search_help_text = "The start of a queue or of a concurrency key."
    id_fields = ()
    ordering = ["queue", "project", "concurrency_key"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """Another scope is another limit."""
        return SCOPE if obj else []

    def save_model(self, request: HttpRequest, obj: Limit, form: Any, change: bool) -> None:
        done = set_limit(scope_of(obj), obj.max_in_flight, obj.starts_per_minute, **person(request))
        obj.pk = done.limit.pk

    def delete_model(self, request: HttpRequest, obj: Limit) -> None:
        remove_limit(obj.pk, **person(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Limit]) -> None:
        for limit in queryset:
            self.delete_model(request, limit)


def scope_of(limit: Limit) -> LimitScope:
    project = limit.project.name if limit.project else ""
    return LimitScope(queue=limit.queue, project=project, concurrency_key=limit.concurrency_key)

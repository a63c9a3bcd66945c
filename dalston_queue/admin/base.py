"""Base classes of the admin pages: read-only rows, bounded lists, changes with an audit entry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin
from django.core.paginator import Paginator
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model, QuerySet
from django.forms import model_to_dict
from django.http import HttpRequest
from django.utils.functional import cached_property

from dalston_queue.accounts.roles import person
from dalston_queue.audit.record import audited

if TYPE_CHECKING:
    AnyModelAdmin = admin.ModelAdmin[Any]
    AnyTabularInline = admin.TabularInline[Any, Any]
    AnyPaginator = Paginator[Any]
else:
    AnyModelAdmin, AnyTabularInline, AnyPaginator = admin.ModelAdmin, admin.TabularInline, Paginator

COUNT_LIMIT = 5_000


class BoundedPaginator(AnyPaginator):
    """Counts to 5 000 and stops: a full count reads the whole table. Older rows are found by search and filter."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by()[:COUNT_LIMIT].count())


class ReadOnly:
    """Rows that the lifecycle, the orchestrator or an engine writes. They are not edited by hand."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class TableAdmin(AnyModelAdmin):
    show_full_result_count = False
    paginator = BoundedPaginator
    list_per_page = 50
    id_fields: tuple[str, ...] = ("pk",)
    """Fields that a pasted id is compared with."""

    class Media:
        css = {"all": ["dalston/admin.css"]}

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Model], search_term: str
    ) -> tuple[QuerySet[Model], bool]:
        """A pasted id uses the index. Django's own search would compare it as text, row by row."""
        pasted = _uuid(search_term)
        if pasted is None:
            return super().get_search_results(request, queryset, search_term)
        found = queryset.none()
        for field in self.id_fields:
            found = found | queryset.filter(**{field: pasted})
        return found, False


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text.strip())
    except ValueError:
        return None


class AuditedAdmin(TableAdmin):
    """Writes the row and its audit entry in one transaction, the admin's own."""

    def save_model(self, request: HttpRequest, obj: Model, form: Any, change: bool) -> None:
        noun = self.opts.model_name
        before = _fields(self.get_queryset(request).get(pk=obj.pk)) if change else None
        action = f"{noun}.{'change' if change else 'create'}"
        with audited(action, str(obj.pk), **person(request), before=before) as row:
            super().save_model(request, obj, form, change)
            row.after = _fields(obj)

    def delete_model(self, request: HttpRequest, obj: Model) -> None:
        with audited(f"{self.opts.model_name}.delete", str(obj.pk), **person(request), before=_fields(obj)) as row:
            super().delete_model(request, obj)
            row.after = {"deleted": True}

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for obj in queryset:
            self.delete_model(request, obj)


def _fields(obj: Model) -> dict[str, Any]:
    """The editable fields as JSON."""
    fields: dict[str, Any] = json.loads(json.dumps(model_to_dict(obj), cls=DjangoJSONEncoder))
    return fields

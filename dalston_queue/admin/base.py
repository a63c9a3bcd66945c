"""What our admin pages share: read-only rows, and lists that stay fast however long the table is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

if TYPE_CHECKING:
    AnyModelAdmin = admin.ModelAdmin[Any]
    AnyTabularInline = admin.TabularInline[Any, Any]
    AnyPaginator = Paginator[Any]
else:
    AnyModelAdmin, AnyTabularInline, AnyPaginator = admin.ModelAdmin, admin.TabularInline, Paginator

COUNTED = 5_000


class BoundedPaginator(AnyPaginator):
    """Counts to 5 000 and stops: a full count reads the whole table. Older rows are found by search and filter."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by()[:COUNTED].count())


class ReadOnly:
    """The lifecycle, the orchestrator or an engine writes these rows. Nobody edits them by hand."""

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

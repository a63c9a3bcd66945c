"""What somebody changes by hand in the admin is on record, with how it was before and after."""

from __future__ import annotations

import json
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model, QuerySet
from django.forms import model_to_dict
from django.http import HttpRequest

from dalston_queue.accounts.roles import person
from dalston_queue.admin.base import TableAdmin
from dalston_queue.audit.record import audited


class AuditedAdmin(TableAdmin):
    """The row and its audit entry are written in one transaction: the admin's own."""

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
    """What can be edited, as JSON."""
    fields: dict[str, Any] = json.loads(json.dumps(model_to_dict(obj), cls=DjangoJSONEncoder))
    return fields

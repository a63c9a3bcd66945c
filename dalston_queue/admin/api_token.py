"""Admin pages of projects and their API tokens.

A token is made here and its text shown once, and revoked here; it is never edited, and its digest is not shown.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from dalston_queue.accounts import tokens
from dalston_queue.accounts.roles import person
from dalston_queue.admin.base import AuditedAdmin, TableAdmin
from dalston_queue.models import ApiToken, Project
from dalston_queue.models.accounts import Scope


class TokenForm(forms.ModelForm):  # type: ignore[type-arg]
    scopes = forms.MultipleChoiceField(
        choices=[(scope.value, scope.value) for scope in Scope],
        widget=forms.CheckboxSelectMultiple,
        initial=[Scope.SUBMIT, Scope.READ],
    )

    class Meta:
        model = ApiToken
        fields = ["project", "name", "scopes", "expires_at", "rate_preset"]


@admin.register(ApiToken)
class ApiTokenAdmin(TableAdmin):
    form = TokenForm
    list_display = ["name", "project", "scopes", "created_at", "last_used_at", "expires_at", "revoked_at"]
    list_filter = ["project", ("revoked_at", admin.EmptyFieldListFilter)]
    list_select_related = ["project"]
    search_fields = ["name"]
    ordering = ["-id"]
    actions = ["revoke"]
    fieldsets = [
        (None, {"fields": ["project", "name", "scopes", "rate_preset", "expires_at"]}),
        ("Use", {"fields": ["created_at", "last_used_at", "revoked_at"]}),
    ]
    add_fieldsets = fieldsets[:1]
    readonly_fields = ["created_at", "last_used_at", "revoked_at"]

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        initial: dict[str, Any] = super().get_changeform_initial_data(request)
        return {"rate_preset": tokens.preset(settings.DALSTON_TOKEN_RATE_PRESET), **initial}

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fieldsets if obj else self.add_fieldsets

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Revoking keeps the row, so that past jobs still say who submitted them."""
        return False

    def save_model(self, request: HttpRequest, obj: ApiToken, form: Any, change: bool) -> None:
        row, text = tokens.issue(
            obj.project,
            obj.name,
            obj.scopes,
            expires_at=obj.expires_at,
            rate_preset=obj.rate_preset,
            **person(request),
        )
        obj.pk = row.pk
        request.issued_token_text = text  # type: ignore[attr-defined]

    def response_add(self, request: HttpRequest, obj: ApiToken, post_url_continue: str | None = None) -> HttpResponse:
        # Rendered at once: a redirect would have to keep the text somewhere until the next page.
        context = {
            **self.admin_site.each_context(request),
            "title": f"Token {obj.name}",
            "text": request.issued_token_text,  # type: ignore[attr-defined]
            "opts": self.opts,
        }
        answer = TemplateResponse(request, "admin/dalston_queue/apitoken/issued.html", context)
        answer["Cache-Control"] = "no-store"
        return answer

    @admin.action(description="Revoke the selected tokens now", permissions=["add"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        revoked = tokens.revoke(queryset, **person(request))
        self.message_user(request, f"Revoked {revoked}. They work no more from now on.")


@admin.register(Project)
class ProjectAdmin(AuditedAdmin):
    list_display = ["name", "weight", "stored_bytes", "created_at"]
    search_fields = ["name"]
    ordering = ["name"]

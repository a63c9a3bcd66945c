"""Webhook deliveries: what is due, what was delivered, what was given up; and sending some again."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from dalston_queue.accounts.roles import may_operate, person
from dalston_queue.admin.base import ReadOnly, TableAdmin
from dalston_queue.audit.record import audited
from dalston_queue.jobs.webhooks.deliveries import send_again
from dalston_queue.models import WebhookDelivery


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(ReadOnly, TableAdmin):
    list_display = ["id", "url", "status", "state", "attempts", "next_at", "last_code", "last_error", "delivered_at"]
    list_filter = ["state", "status"]
    search_fields = ["origin__startswith"]
    search_help_text = "A delivery's or job's id, or the start of an address."
    id_fields = ("pk", "job_id")
    ordering = ["-finished_at"]
    raw_id_fields = ["job"]
    actions = ["send_again"]

    @admin.action(description="Send the selected webhooks again now", permissions=["send"])
    def send_again(self, request: HttpRequest, queryset: QuerySet[WebhookDelivery]) -> None:
        due = 0
        for row in queryset:
            before = {"state": row.state, "attempts": row.attempts}
            with audited("webhook.send", str(row.pk), **person(request), before=before) as action:
                again = send_again(row, timezone.now())
                action.after = {"due": again}
            due += again
        self.message_user(request, f"{due} are due now; the others are being sent already.")

    def has_send_permission(self, request: HttpRequest) -> bool:
        return may_operate(request.user)

"""The webhooks of a job, a line for each end of the job, and sending one again."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from dalston_queue.accounts.roles import person
from dalston_queue.audit.record import audited
from dalston_queue.dashboard.live.fragments import Row, render
from dalston_queue.dashboard.parts.request import reason_of
from dalston_queue.dashboard.parts.words import TASK_TONES
from dalston_queue.dashboard.security.roles import operator_action
from dalston_queue.jobs.webhooks.deliveries import send_again
from dalston_queue.models import WebhookDelivery
from dalston_queue.models.webhook import DeliveryState

SHOWN = 10
_TONES: dict[str, str] = {DeliveryState.PENDING: "wait", DeliveryState.DELIVERED: "ok", DeliveryState.GAVE_UP: "bad"}


def webhooks_of(job_id: UUID) -> tuple[WebhookDelivery, ...]:
    """The newest, newest first. Pages show their origin only: the rest of a callback URL may be a secret."""
    return tuple(WebhookDelivery.objects.filter(job_id=job_id).order_by("-finished_at")[:SHOWN])


def webhook_row(webhook: WebhookDelivery, may_operate: bool) -> Row:
    row_id = f"webhook-{webhook.pk}"
    tones = {"tone": _TONES.get(webhook.state, ""), "job_tone": TASK_TONES.get(webhook.status, "")}
    state = webhook.state.replace("_", " ")
    context = {"webhook": webhook, "state": state, "may_operate": may_operate, **tones}
    return Row(row_id, render("job/_webhook", row_id=row_id, **context))


@operator_action
def send_webhook(request: HttpRequest, job_id: UUID, delivery_id: UUID) -> HttpResponse:
    row = WebhookDelivery.objects.filter(pk=delivery_id, job_id=job_id).first()
    if row is None:
        raise Http404(f"there is no webhook {delivery_id} of job {job_id}")
    before = {"state": row.state, "attempts": row.attempts}
    with audited("webhook.send", str(row.pk), reason=reason_of(request), before=before, **person(request)) as action:
        again = send_again(row, timezone.now())
        action.after = {"due": again}
    if again:
        messages.success(request, "It is sent again now, under the same id, with a new set of attempts.")
    else:
        messages.warning(request, "Nothing was changed: it is being sent right now.")
    return redirect("dashboard:job", job_id=job_id)

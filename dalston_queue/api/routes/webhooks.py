"""/jobs/{job_id}/webhooks: sending a job's webhook again. `GET /jobs/{job_id}` shows how it stands."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Path, Router

from dalston_queue.api.auth.bearer import needs
from dalston_queue.api.auth.principal import principal_of
from dalston_queue.api.errors.problems import ApiProblem, Code, answers, not_found
from dalston_queue.api.schemas.base import Reason
from dalston_queue.api.schemas.jobs import WebhookOut, webhook_out
from dalston_queue.audit.record import audited
from dalston_queue.jobs.webhooks.deliveries import send_again
from dalston_queue.models import WebhookDelivery
from dalston_queue.models.api_token import Scope

router = Router(tags=["jobs"])


@router.post(
    "/jobs/{job_id}/webhooks/{delivery_id}/send",
    auth=needs(Scope.SUBMIT, Scope.OPERATE),
    response=answers({200: WebhookOut}, 404, 409),
)
def send_webhook_again(
    request: HttpRequest, job_id: Annotated[UUID, Path()], delivery_id: Annotated[UUID, Path()], reason: Reason = ""
) -> WebhookOut:
    """Send it again now, under the same id, delivered or given up. It gets all its attempts anew."""
    principal = principal_of(request)
    rows = WebhookDelivery.objects.filter(pk=delivery_id, job_id=job_id)
    row = principal.visible(rows, "job__project_id").first()
    if row is None:
        raise not_found(f"delivery {delivery_id} of job {job_id}")
    before = {"state": row.state, "attempts": row.attempts}
    target = str(delivery_id)
    with audited("webhook.send", target, reason=reason, before=before, **principal.signature()) as action:
        again = send_again(row, timezone.now())
        action.after = {"due": again}
    if not again:
        raise ApiProblem(409, Code.STATE_CONFLICT, "It is being sent right now. Look at the job again in a moment.")
    row.refresh_from_db()
    return webhook_out(row)

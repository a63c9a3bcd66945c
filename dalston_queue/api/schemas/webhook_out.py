"""A webhook's delivery as the API shows it."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, Field

from dalston_queue.jobs.lifecycle.states import JobStatus
from dalston_queue.models import Job, WebhookDelivery
from dalston_queue.models.webhook import DeliveryState

MOST = 20


class WebhookOut(BaseModel):
    delivery_id: UUID = Field(description="The same in every attempt; the receiver gets it as `Dalston-Delivery`.")
    url: str
    status: JobStatus = Field(description="What the job came to.")
    state: DeliveryState = Field(description="pending, delivered, or gave_up after the last attempt.")
    attempts: int
    next_at: datetime | None = Field(description="When it is sent next, while it is pending.")
    last_code: int | None = Field(description="The receiver's last HTTP status.")
    last_error: str | None
    delivered_at: datetime | None


def webhook_out(row: WebhookDelivery) -> WebhookOut:
    state = DeliveryState(row.state)
    return WebhookOut(
        delivery_id=row.id,
        url=row.url,
        status=JobStatus(row.status),
        state=state,
        attempts=row.attempts,
        next_at=row.next_at if state is DeliveryState.PENDING else None,
        last_code=row.last_code,
        last_error=row.last_error or None,
        delivered_at=row.delivered_at,
    )


def deliveries_of(job: Job) -> list[WebhookOut]:
    """One for each time that the job ended: a replayed job ends again."""
    return [webhook_out(row) for row in job.webhooks.order_by("-finished_at")[:MOST]]

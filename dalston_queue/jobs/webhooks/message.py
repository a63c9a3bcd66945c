"""The body of a webhook and its signature: HMAC-SHA256 over `timestamp.body` with the project's secret.

Pure. docs/webhooks.md has the receiver's half.
"""

import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec


class TaskRef(msgspec.Struct, frozen=True):
    task_id: UUID
    stage: str


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """The body, the same in every attempt: the job as it ended."""

    event: str  # job.completed, job.failed, job.cancelled
    delivery_id: UUID
    job_id: UUID
    name: str
    project: str
    status: str
    error: str | None
    created_at: datetime
    completed_at: datetime
    trace_id: str
    tasks: Sequence[TaskRef]


def encode(message: Message) -> bytes:
    return msgspec.json.encode(message)


def headers(message: Message, body: bytes, secret: str, at: int) -> dict[str, str]:
    """`at`: seconds since 1970, now. It is signed, so that a receiver recognises a copy of an old request."""
    return {
        "Content-Type": "application/json",
        "User-Agent": "Dalston-Webhook/1",
        "Dalston-Delivery": str(message.delivery_id),
        "Dalston-Event": message.event,
        "Dalston-Timestamp": str(at),
        "Dalston-Signature": f"t={at},v1={signature(secret, at, body)}",
    }


def signature(secret: str, at: int, body: bytes) -> str:
    return hmac.new(secret.encode(), b"%d.%s" % (at, body), hashlib.sha256).hexdigest()

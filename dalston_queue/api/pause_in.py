"""What pausing and resuming a queue takes."""

from __future__ import annotations

from ninja import Schema

from dalston_queue.api.reason import ReasonInBody


class PauseIn(Schema):
    reason: ReasonInBody = ""

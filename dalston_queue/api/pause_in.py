"""What pausing and resuming a queue takes."""

from __future__ import annotations

from dalston_queue.api.body_in import BodyIn
from dalston_queue.api.reason import ReasonInBody


class PauseIn(BodyIn):
    reason: ReasonInBody = ""

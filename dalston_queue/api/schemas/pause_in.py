"""What pausing and resuming a queue takes."""

from __future__ import annotations

from pydantic import Field

from dalston_queue.api.schemas.base import BodyIn
from dalston_queue.api.schemas.reason import ReasonInBody


class ResumeIn(BodyIn):
    reason: ReasonInBody = ""


class PauseIn(ResumeIn):
    new: bool = Field(False, description="Also one that nobody has used yet: its first task will wait.")

"""A job page's WebSocket: a hub for viewers, and another for those who may act."""

from __future__ import annotations

from functools import partial

from dalston_queue.dashboard.job.render import job_fragments
from dalston_queue.dashboard.live.consumer import LiveConsumer
from dalston_queue.dashboard.live.hub import Hub, hub_of


class JobConsumer(LiveConsumer):
    def hub(self) -> Hub:
        job_id = self.scope["url_route"]["kwargs"]["job_id"]
        return hub_of(f"job {self.operates} {job_id}", partial(job_fragments, job_id, self.operates))

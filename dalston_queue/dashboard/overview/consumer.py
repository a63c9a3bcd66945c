"""The overview's WebSocket: one hub for all."""

from __future__ import annotations

from dalston_queue.dashboard.live.consumer import LiveConsumer
from dalston_queue.dashboard.live.hub import Hub, hub_of
from dalston_queue.dashboard.overview.render import current_fragments


class OverviewConsumer(LiveConsumer):
    def hub(self) -> Hub:
        return hub_of("overview", current_fragments)

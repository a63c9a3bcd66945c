"""A stream page's WebSocket: one hub per queue, filter, and whether its rows have buttons."""

from __future__ import annotations

from functools import partial

from dalston_queue.dashboard.live.consumer import LiveConsumer
from dalston_queue.dashboard.live.hub import Hub, hub_of
from dalston_queue.dashboard.parts.query import address, asked
from dalston_queue.dashboard.stream.query import FIELDS
from dalston_queue.dashboard.stream.render import stream_fragments


class StreamConsumer(LiveConsumer):
    def hub(self) -> Hub:
        queue = self.scope["url_route"]["kwargs"]["queue"]
        query = asked(self.scope["query_string"], FIELDS)
        topic = f"stream {queue}{address(query)} {'operator' if self.operates else 'viewer'}"
        return hub_of(topic, partial(stream_fragments, queue, query, self.operates))

"""A stream page's WebSocket: one hub per queue, filter, and whether its rows have buttons."""

from __future__ import annotations

from functools import partial

from dalston_queue.dashboard.consumers import LiveConsumer
from dalston_queue.dashboard.hub import Hub, hub_of
from dalston_queue.dashboard.query import address, asked
from dalston_queue.dashboard.stream_fragments import stream_fragments
from dalston_queue.dashboard.stream_query import FIELDS


class StreamConsumer(LiveConsumer):
    def hub(self) -> Hub:
        queue = self.scope["url_route"]["kwargs"]["queue"]
        query = asked(self.scope["query_string"], FIELDS)
        topic = f"stream {queue}{address(query)} {'operator' if self.operates else 'viewer'}"
        return hub_of(topic, partial(stream_fragments, queue, query, self.operates))

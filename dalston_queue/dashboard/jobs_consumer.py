"""The WebSocket of the page of jobs: one hub per search."""

from __future__ import annotations

from dalston_queue.dashboard.board import Fragment
from dalston_queue.dashboard.consumers import LiveConsumer
from dalston_queue.dashboard.hub import Hub, hub_of
from dalston_queue.dashboard.jobs_fragments import fragments_of
from dalston_queue.dashboard.jobs_view import FIELDS, JobsReader
from dalston_queue.dashboard.query import address, asked


class JobsConsumer(LiveConsumer):
    def hub(self) -> Hub:
        query = asked(self.scope["query_string"], FIELDS)
        reader = JobsReader(query)

        def produce() -> list[Fragment]:
            return fragments_of(reader(), query)

        return hub_of(f"jobs {address(query)}", produce)

"""The WebSocket of the page of jobs: one hub per search."""

from __future__ import annotations

from dalston_queue.dashboard.jobs.read import FIELDS, JobsReader
from dalston_queue.dashboard.jobs.render import fragments_of
from dalston_queue.dashboard.live.board import Fragment
from dalston_queue.dashboard.live.consumer import LiveConsumer
from dalston_queue.dashboard.live.hub import Hub, hub_of
from dalston_queue.dashboard.parts.query import address, asked


class JobsConsumer(LiveConsumer):
    def hub(self) -> Hub:
        query = asked(self.scope["query_string"], FIELDS)
        reader = JobsReader(query)

        def produce() -> list[Fragment]:
            return fragments_of(reader(), query)

        return hub_of(f"jobs {address(query)}", produce)

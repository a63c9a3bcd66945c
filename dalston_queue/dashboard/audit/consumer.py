"""The audit page's WebSocket: one hub per filter."""

from __future__ import annotations

from functools import partial

from dalston_queue.dashboard.audit.read import FIELDS
from dalston_queue.dashboard.audit.render import audit_fragments
from dalston_queue.dashboard.live.consumer import LiveConsumer
from dalston_queue.dashboard.live.hub import Hub, hub_of
from dalston_queue.dashboard.parts.query import address, asked


class AuditConsumer(LiveConsumer):
    def hub(self) -> Hub:
        query = asked(self.scope["query_string"], FIELDS)
        return hub_of(f"audit {address(query)}", partial(audit_fragments, query))

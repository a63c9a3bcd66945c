"""The sockets of the nodes' pages: all nodes, one node, and the log of one engine."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial

from dalston_queue.dashboard.live.consumer import LiveConsumer
from dalston_queue.dashboard.live.hub import Hub, hub_of
from dalston_queue.dashboard.nodes.logs import log_hub_of
from dalston_queue.dashboard.nodes.render import fleet_fragments, node_fragments
from dalston_queue.dashboard.nodes.workers import worker_of
from dalston_queue.dashboard.parts.query import asked


class NodesConsumer(LiveConsumer):
    def hub(self) -> Hub:
        return hub_of("nodes", fleet_fragments)


class NodeConsumer(LiveConsumer):
    def hub(self) -> Hub:
        node_id = self.scope["url_route"]["kwargs"]["node_id"]
        worker_id = worker_of(asked(self.scope["query_string"], ["worker"]))
        topic = f"node {node_id} {worker_id} {'operator' if self.operates else 'viewer'}"
        return hub_of(topic, partial(node_fragments, node_id, worker_id, self.operates))


class LogConsumer(LiveConsumer):
    """Sends JSON, not HTML: the page puts the lines in as text, so that nothing in a log is ever markup."""

    def messages(self) -> AsyncGenerator[str, None]:
        where = self.scope["url_route"]["kwargs"]
        return log_hub_of(where["node_id"], where["slot"]).follow()

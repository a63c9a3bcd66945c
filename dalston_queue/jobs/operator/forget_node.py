"""Forgets a dead node, which would otherwise be shown for a day."""

from __future__ import annotations

from dataclasses import dataclass

from dalston_queue.broker.broker import Broker
from dalston_queue.broker.protocol.types import NodeState


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The outcome: `engines` are those of the node. A node that is alive or not known is left alone."""

    found: bool
    state: str = ""
    engines: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        return self.state == NodeState.DEAD


def forget_node(broker: Broker, node_id: str) -> Forgotten:
    """Remove a dead node and its engines from the registry. A node that beats again is registered again."""
    registry = broker.registry
    node = next((node for node in registry.nodes() if node.node_id == node_id), None)
    if node is None:
        return Forgotten(found=False)
    if node.state is not NodeState.DEAD:
        return Forgotten(found=True, state=node.state)
    engines = tuple(engine.engine_id for engine in registry.engines() if engine.node_id == node_id)
    registry.forget(engines, [node_id])
    return Forgotten(found=True, state=node.state, engines=engines)

"""Forgets a node that is gone for good. Otherwise its death is shown for a day."""

from __future__ import annotations

from dataclasses import dataclass

from dalston_queue.broker.broker import Broker
from dalston_queue.broker.protocol.types import NodeState


@dataclass(frozen=True, slots=True)
class Forgotten:
    """`engines` went with it. Nothing is changed for a node that is not dead, or that is not known."""

    found: bool
    state: str = ""
    engines: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        return self.state == NodeState.DEAD


def forget_node(broker: Broker, node_id: str) -> Forgotten:
    """Takes a dead node and its engines from the registry. One that beats again is back by itself: no race to lose."""
    registry = broker.registry
    node = next((node for node in registry.nodes() if node.node_id == node_id), None)
    if node is None:
        return Forgotten(found=False)
    if node.state is not NodeState.DEAD:
        return Forgotten(found=True, state=node.state)
    engines = tuple(engine.engine_id for engine in registry.engines() if engine.node_id == node_id)
    registry.forget(engines, [node_id])
    return Forgotten(found=True, state=node.state, engines=engines)

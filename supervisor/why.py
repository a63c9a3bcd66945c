"""Why an engine is as it is, in plain sentences, from what Redis knows."""

from __future__ import annotations

from dataclasses import dataclass

from dalston_queue.broker import Broker
from dalston_queue.broker.nodes.registry import EngineInfo
from dalston_queue.broker.protocol.types import EngineState, NodeState

GOOD = (EngineState.READY, EngineState.STARTING, EngineState.LOADING)


@dataclass(frozen=True, slots=True)
class Answer:
    """`fine`: nothing needs to be done about it."""

    fine: bool
    sentences: list[str]


def why_engine(broker: Broker, name: str) -> Answer | None:
    """By engine id, slot (demo.0), process id (node.demo.0.boot), or node. None: nobody of that name."""
    nodes = {node.node_id: node for node in broker.registry.nodes()}
    found = [engine for engine in broker.registry.engines() if _is(engine, name)]
    if not found:
        return None
    fine, sentences = True, []
    for engine in sorted(found, key=lambda engine: engine.engine_id):
        why = engine.info.get("why") or ""
        sentences.append(f"{engine.engine_id} is {engine.state}{f': {why}' if why else ''}.")
        if engine.info.get("last_exit"):
            sentences.append(
                f"  Its {engine.info['exits']} earlier processes ended; the last: {engine.info['last_exit']}."
            )
        node = nodes.get(engine.node_id)
        if node is not None and node.state is not NodeState.ACTIVE:
            sentences.append(f"  Its node {node.node_id} is {node.state}: {node.info.get('why') or 'no reason given'}.")
        fine = fine and engine.state in GOOD and (node is None or node.state is NodeState.ACTIVE)
    return Answer(fine, sentences)


def _is(engine: EngineInfo, name: str) -> bool:
    slot = str(engine.info.get("slot", ""))
    return name in (engine.engine_id, slot, slot.partition(".")[0], engine.node_id)

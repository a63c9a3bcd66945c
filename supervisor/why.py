"""Why an engine or a task is as it is, in plain sentences, from what Redis knows (and the database, for a task)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dalston_queue.broker import Broker
from dalston_queue.broker.record import Record
from dalston_queue.broker.registry import EngineInfo
from dalston_queue.broker.types import EngineState, NodeState, RecordState

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


def why_task(broker: Broker, task_id: str, row: dict[str, Any]) -> Answer:
    """`row`: the task's row in the database, as a mapping."""
    status = row["status"]
    sentences = [f"Task {task_id} ({row['stage']}, queue {row['queue']}) is {status}, attempt {row['attempt']}."]
    if row["error"]:
        sentences.append(f"Its last error ({row['error_cause'] or 'error'}): {row['error']}")
    if status == "pending":
        sentences.append(f"It waits for {', '.join(row['after']) or 'its job to be started by an orchestrator'}.")
    elif status == "scheduled":
        sentences.append(f"It is not to start before {row['scheduled_at']:%Y-%m-%d %H:%M:%S %Z}.")
    elif status == "ready":
        sentences.append(
            "It may run and is about to be put in line; if it stays so, no orchestrator runs or Redis is full."
        )
    if status not in ("queued", "running"):
        return Answer(status in ("completed", "scheduled", "pending"), sentences)
    record = broker.records(row["queue"], [task_id]).get(task_id)
    if record is None:
        return Answer(fine=False, sentences=[*sentences, "Redis does not know it: the reconciler will put it back."])
    if record.state is RecordState.RUNNING:
        return Answer(fine=True, sentences=[*sentences, *_running(broker, record)])
    lacks = list(_waiting(broker, row["queue"], set(row["required_capabilities"])))
    return Answer(not lacks, [*sentences, *(lacks or ["It waits in line; an engine that can take it is ready."])])


def _running(broker: Broker, record: Record) -> Iterator[str]:
    since = datetime.fromtimestamp(record.claimed_at_ms / 1000, UTC)
    yield f"Engine {record.owner} has it since {since:%H:%M:%S} UTC; {record.deliveries} engines died with it before."
    if record.cancel:
        yield "It is asked to stop."
    answer = why_engine(broker, record.owner)
    yield from answer.sentences if answer else ["That engine does not beat any more: its work will be taken back."]


def _waiting(broker: Broker, queue: str, needed: set[str]) -> Iterator[str]:
    """What keeps it from running; nothing if all is well."""
    [stats] = broker.snapshot([queue]).queues
    if stats.paused:
        yield f"The queue {queue} is paused."
    serving = [engine for engine in broker.registry.engines() if queue in engine.queues]
    able = [engine for engine in serving if needed <= set(engine.capabilities)]
    if not serving:
        yield f"No engine serves the queue {queue}."
    elif not able:
        yield f"No engine of the queue {queue} has all of: {', '.join(sorted(needed))}."
    elif not any(engine.state is EngineState.READY for engine in able):
        yield f"None of the {len(able)} engines that could take it is ready:"
        for engine in able:
            yield f"  {engine.engine_id} is {engine.state}: {engine.info.get('why') or 'no reason given'}."


def _is(engine: EngineInfo, name: str) -> bool:
    slot = str(engine.info.get("slot", ""))
    return name in (engine.engine_id, slot, slot.partition(".")[0], engine.node_id)

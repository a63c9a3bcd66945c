"""A full Redis within seconds: entries by a script inside the server, engines by the beats of their nodes."""

import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dalston_queue.broker import Broker
from dalston_queue.broker.connection import scripts
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.messages import TaskMessage, encode_task
from dalston_queue.broker.protocol.types import EngineState, NodeState, Tier

QUEUES = ("transcribe", "diarize", "align", "translate", "summarise", "redact", "embed", "deliver")
TIERS = (Tier.MEDIUM, Tier.HIGH, Tier.LOW)
PER_NODE = 8
BATCH = 5_000
GIB = 1024


@dataclass(frozen=True)
class Size:
    waiting: int
    pending: int
    engines: int
    viewers: int
    history: int  # jobs that are over
    letters: int


def task_id(number: int) -> str:
    return f"01920000-0000-7000-8000-{number:012x}"


def job_id(number: int) -> str:
    return f"01910000-0000-7000-8000-{number:012x}"


def engine_id(number: int) -> str:
    return f"node-{number // PER_NODE:02}.{QUEUES[number % len(QUEUES)]}.{number % PER_NODE}.boot{number:04}"


def fill(broker: Broker, size: Size) -> None:
    """Pending first, numbered from 0, so that an engine reads exactly its own; then what waits."""
    [shard] = broker.topology.shards
    records = scripts.BROKER / "include" / "record.lua"
    source = records.read_text() + (Path(__file__).parent / "fill.lua").read_text()
    script = shard.client.register_script(source)
    keys, number = shard.keys, 0
    for queue in QUEUES:
        shard.client.sadd(keys.stages(), queue)
        shard.client.hset(keys.lanes(queue), mapping={"@": 1, "#v": 1})
    for engine in range(size.engines):
        share = size.pending // size.engines
        queue = QUEUES[engine % len(QUEUES)]
        _add(script, keys, queue, Tier.MEDIUM, number, share, engine_id(engine))
        number += share
    lanes = [(queue, tier) for queue in QUEUES for tier in TIERS]
    for place, (queue, tier) in enumerate(lanes):
        share = size.waiting // len(lanes) + (place < size.waiting % len(lanes))
        for begin in range(0, share, BATCH):
            count = min(BATCH, share - begin)
            _add(script, keys, queue, tier, number, count, "")
            number += count


def _add(script: Any, keys: Any, queue: str, tier: Tier, first: int, count: int, owner: str) -> None:
    message = TaskMessage(
        task_id="x", job_id="x", queue=queue, task_type=queue, attempt=1, parameters={"file": "a.wav"}
    )
    body = encode_task(message)[-1]
    names = [keys.stream(queue, "", tier), keys.tasks(queue), keys.running(queue), keys.deadlines(queue)]
    script(keys=names, args=[first, count, owner, int(time.time() * 1000), body])


def beat(broker: Broker, node: int, size: Size, why: str = "") -> None:
    """As a supervisor beats: each time with other figures."""
    numbers = range(node * PER_NODE, min((node + 1) * PER_NODE, size.engines))
    name = f"node-{node:02}"
    devices = [
        {"uuid": f"GPU-{number}", "index": number % PER_NODE, "name": "NVIDIA L4", "total_mib": 24 * GIB,
         "used_mib": 11 * GIB + random.randrange(GIB), "utilisation": random.randrange(60, 100),
         "temperature": random.randrange(60, 75), "power_w": random.randrange(55, 72)}
        for number in numbers
    ]  # fmt: skip
    info = {"pid": 1, "why": why, "labels": {"zone": "b"}, "gpus": {"devices": devices}}
    broker.registry.beat_node(name, NodeState.ACTIVE, [_engine(number, size) for number in numbers], info)


def _engine(number: int, size: Size) -> EngineBeat:
    queue, share = QUEUES[number % len(QUEUES)], size.pending // size.engines
    tasks = [
        {"task_id": task_id(number * share + each), "queue": queue, "attempt": 1, "fraction": random.random()}
        for each in range(min(share, 32))
    ]
    said = {"slot": f"{queue}.{number % PER_NODE}", "engine": queue, "version": "1.0", "pid": 1000 + number,
            "tasks": tasks, "running": share, "exits": number % 3, "cpu_percent": random.random() * 100,
            "memory_mib": 3_000 + random.random()}  # fmt: skip
    return EngineBeat(engine_id=engine_id(number), state=EngineState.READY, queues=(queue,), capacity=512, info=said)

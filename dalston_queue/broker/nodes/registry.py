"""The registry of nodes and engines: heartbeats, states, and the judge's verdicts.

A beat moves a counter, so no clocks are compared. The judge (the leading orchestrator) reads the counters and condemns
an engine whose counters did not move; other processes read verdicts. Without a judge an idle engine observes the
counters itself (engine/stale.py). A verdict names the counter it was judged at, so one more beat voids it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from dalston_queue.broker.connection.shard import Argument, Call, Shard, command, pairs, script
from dalston_queue.broker.connection.topology import Topology
from dalston_queue.broker.engine.breaker import Breaker
from dalston_queue.broker.nodes.reports import EngineReport, NodeReport, read_report
from dalston_queue.broker.protocol.keys import ENGINE_ID, NAME, NODE_ID
from dalston_queue.broker.protocol.types import Cause, EngineState, NodeState
from dalston_queue.broker.protocol.validate import (
    Fields,
    by_engine,
    is_queue_name,
    matching,
    number,
    readable,
    verdict,
    whole,
)

Info = TypeVar("Info")
KEPT_MS = 24 * 3600 * 1000  # an engine or node that does not beat for a day is forgotten
BREAKER = "breaker"  # field of an engine: the circuit breaker of a worker over HTTP (engine/breaker.py)
MAX_CAPACITY = 10_000
_NODE, _ENGINE = re.compile(NODE_ID.encode()), re.compile(ENGINE_ID.encode())
DRAIN = "drain"  # field of an engine: why an operator wants it to drain; only workers over HTTP read it


class EngineBeat(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an engine, as a heartbeat reports it."""

    engine_id: str
    state: EngineState
    queues: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    capacity: int = 1
    info: dict[str, Any] = {}  # anything to show: pid, version, cpu, memory, gpu, reason …


class EngineInfo(EngineBeat, frozen=True, kw_only=True):
    node_id: str = ""
    beat: int = 0
    at_ms: int = 0  # by the sender's clock: to show, not to judge
    drain_requested: bool = False  # by an operator, of a worker over HTTP

    @property
    def report(self) -> EngineReport:
        """`info`, typed."""
        return read_report(self.info, EngineReport)


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    node_id: str
    state: NodeState
    beat: int = 0
    at_ms: int = 0
    info: dict[str, Any] = {}

    @property
    def report(self) -> NodeReport:
        """`info`, typed."""
        return read_report(self.info, NodeReport)


class BeatCounters(msgspec.Struct, frozen=True):
    """The beat counters of one engine: by queue, one for each shard of the queue. Equal beats: no beat in between."""

    engine_id: str
    counters: dict[str, tuple[int, ...]]


class Registry:
    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._home = topology.home
        self._keys = topology.home.keys

    def beat_node(
        self, node_id: str, state: NodeState, engines: Sequence[EngineBeat], info: dict[str, Any] | None = None
    ) -> None:
        """The heartbeat of a node and all its engines, in one pipeline."""
        fields: list[Argument] = ["state", state, "at", _now_ms(), "info", _encode(info or {})]
        calls = [
            script("register", [self._keys.node(node_id)], [KEPT_MS, *fields]),
            script("index", [self._keys.nodes()], [node_id]),
        ]
        self._send(calls, engines, node_id)

    def beat_engine(self, engine: EngineBeat, node_id: str = "") -> None:
        """The heartbeat of an engine without a supervisor."""
        self._send([], [engine], node_id)

    def nodes(self) -> list[NodeInfo]:
        return self._read(self._keys.nodes(), self._keys.node, _node, _NODE)

    def engines(self) -> list[EngineInfo]:
        """All engines that beat within the last day; state is `dead` for those judged dead and not back since."""
        return self._read(self._keys.engines(), self._keys.engine, _engine, _ENGINE)

    def beat_counters(self) -> dict[str, BeatCounters]:
        """Beat counters of every engine that has a session or beat for a queue, by engine id."""
        counters: dict[str, dict[str, list[int]]] = {}
        for shard in self._topology.shards:
            queues = shard.queues()
            replies = shard.readable([command("HGETALL", shard.keys.beats(queue)) for queue in queues])
            for queue, reply in zip(queues, replies, strict=True):
                shards = self._topology.shards_of(queue)
                for engine, counter in by_engine(pairs(reply or ())).items():
                    mine = counters.setdefault(engine, {}).setdefault(queue, [0] * len(shards))
                    if shard in shards:
                        mine[shards.index(shard)] = number(counter) or 0  # the next beat repairs what is no number
        return {
            engine: BeatCounters(engine, {queue: tuple(each) for queue, each in by_queue.items()})
            for engine, by_queue in counters.items()
        }

    def condemn(self, beats: BeatCounters, cause: Cause = Cause.NODE_LOST) -> None:
        """The judge's verdict: dead, at these counters. Void as soon as the engine beats again."""
        for queue, counters in beats.counters.items():
            for shard, counter in zip(self._topology.shards_of(queue), counters, strict=True):
                shard.run("put_field", [shard.keys.verdicts(queue)], [beats.engine_id, f"{counter}:{cause}", 0])
        self._mark_dead(self._keys.engine(beats.engine_id))

    def condemn_node(self, node: NodeInfo) -> None:
        self._mark_dead(self._keys.node(node.node_id))

    def dead(self, queue: str) -> dict[str, Cause]:
        """Engines of this queue that are judged dead and have not beaten since, with the cause."""
        found: dict[str, Cause] = {}
        for shard in self._topology.shards_of(queue):
            keys = [shard.keys.verdicts(queue), shard.keys.beats(queue)]
            replies = shard.all([command("HGETALL", key) for key in keys])
            verdicts, beats = (by_engine(pairs(reply)) for reply in replies)
            for engine, raw in verdicts.items():
                judged = verdict(raw)
                if judged and beats.get(engine) == judged[0]:
                    found[engine] = judged[1]
        return found

    def forget(
        self, engine_ids: Iterable[str] = (), node_ids: Iterable[str] = (), *, with_commands: bool = True
    ) -> None:
        """Remove an engine that stopped cleanly, or a node that is gone. with_commands=False for a node that may come
        back: its commands and their replies stay for a day."""
        calls = []
        for engine_id in engine_ids:
            calls += [command("DEL", self._keys.engine(engine_id)), command("SREM", self._keys.engines(), engine_id)]
        for node_id in node_ids:
            calls += [command("DEL", self._keys.node(node_id)), command("SREM", self._keys.nodes(), node_id)]
            if with_commands:
                channel = (self._keys.commands, self._keys.questions, self._keys.replies, self._keys.logs)
                calls += [command("DEL", key(node_id)) for key in channel]
        self._home.calls(calls)

    def _send(self, calls: list[Call], engines: Sequence[EngineBeat], node_id: str) -> None:
        """One pipeline per shard: the report of each engine, and the counters that reclaim rechecks."""
        by_shard: dict[Shard, list[Call]] = {self._home: calls}
        serving: dict[tuple[Shard, str], list[str]] = {}
        for engine in engines:
            fields: list[Argument] = ["report", _encode(engine), "node", node_id, "at", _now_ms()]
            calls.append(script("register", [self._keys.engine(engine.engine_id)], [KEPT_MS, *fields]))
            for queue in engine.queues:
                for shard in self._topology.shards_of(queue):
                    serving.setdefault((shard, queue), []).append(engine.engine_id)
        if engines:
            calls.append(script("index", [self._keys.engines()], [engine.engine_id for engine in engines]))
        for (shard, queue), names in serving.items():
            batch = by_shard.setdefault(shard, [])
            batch.append(script("count_beats", [shard.keys.beats(queue)], names))
            batch.append(script("index", [shard.keys.stages()], [queue]))
        for shard, batch in by_shard.items():
            shard.readable(batch)

    def _read(
        self, index: str, key: Callable[[str], str], read: Callable[[str, Fields], Info], ids: re.Pattern[bytes]
    ) -> list[Info]:
        names = matching(self._home.command("SMEMBERS", index), ids)
        replies = self._home.readable([command("HGETALL", key(name)) for name in names])
        found, gone = [], []
        for name, reply in zip(names, replies, strict=True):
            if reply is None:
                continue
            fields = dict(pairs(reply))
            if b"beat" not in fields or b"at" not in fields:
                gone.append(name)
                continue
            info = readable(key(name), partial(read, name), fields)
            if info is not None:
                found.append(info)
        if gone:
            self._home.command("SREM", index, *gone)
        return found

    def _mark_dead(self, key: str) -> None:
        self._home.run("put_field", [key], ["dead", 1, 1])


def _node(node_id: str, fields: Fields) -> NodeInfo:
    return NodeInfo(
        node_id=node_id,
        state=NodeState.DEAD if b"dead" in fields else NodeState(fields[b"state"].decode()),
        beat=whole(fields[b"beat"]),
        at_ms=whole(fields[b"at"]),
        info=msgspec.json.decode(fields[b"info"], type=dict[str, Any]),
    )


def _engine(_: str, fields: Fields) -> EngineInfo:
    report = msgspec.json.decode(fields[b"report"], type=EngineBeat)
    info, state = report.info, EngineState.DEAD if b"dead" in fields else report.state
    breaker, now = Breaker.read(fields.get(BREAKER.encode())), time.time()
    if breaker.is_open:
        info = {**info, "breaker": breaker.state(now)}
        if state is EngineState.READY:
            state, info = EngineState.UNHEALTHY, {**info, "why": breaker.why(now)}
    if state in {EngineState.READY, EngineState.UNHEALTHY} and DRAIN.encode() in fields:
        state, info = EngineState.DRAINING, {**info, "why": fields[DRAIN.encode()].decode()}
    return EngineInfo(
        engine_id=report.engine_id,
        state=state,
        queues=tuple(queue for queue in report.queues if is_queue_name(queue)),
        capabilities=tuple(name for name in report.capabilities if re.fullmatch(NAME, name)),
        capacity=min(max(report.capacity, 0), MAX_CAPACITY),
        info=info,
        node_id=fields[b"node"].decode() if _NODE.fullmatch(fields[b"node"]) else "",
        beat=whole(fields[b"beat"]),
        at_ms=whole(fields[b"at"]),
        drain_requested=DRAIN.encode() in fields,
    )


def _now_ms() -> int:
    return int(time.time() * 1000)


def _encode(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=str)

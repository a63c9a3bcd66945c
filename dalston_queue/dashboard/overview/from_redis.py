"""The overview's part from Redis: lanes, nodes, engines and the leader. A fixed number of round trips."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from dalston_queue.broker.broker import Broker
from dalston_queue.broker.nodes.registry import EngineInfo, NodeInfo
from dalston_queue.broker.protocol.types import EngineState, Role, Tier
from dalston_queue.broker.protocol.validate import moment_if
from dalston_queue.broker.views.snapshot import LaneStats, QueueStats, Rates, Snapshot, rates
from dalston_queue.dashboard.overview.values import EngineLine, InRedis, Lane, NodeLine, QueueLine
from dalston_queue.jobs.queries.lanes import ReadyByQueue, with_ready
from dalston_queue.jobs.queries.queues import ALL, Selection

_READER = "dashboard"
"""A lease needs a token; with this one it is only read, never taken."""


def read(
    broker: Broker, before: Snapshot | None = None, ready: ReadyByQueue | None = None, shown: Selection = ALL
) -> InRedis:
    """`before`: a snapshot of some seconds ago, for the rates. `ready`: what waits in Postgres; None if not known."""
    snapshot = broker.snapshot(shown.names)
    if ready is not None:
        snapshot = with_ready(broker, snapshot, ready)
    engines = broker.registry.engines()
    found = {} if before is None else {name: _rounded(each) for name, each in rates(before, snapshot).items()}
    lanes = tuple(_lanes(snapshot, engines, found, is_ready_known=ready is not None))
    return InRedis(
        snapshot=snapshot,
        lanes=lanes,
        queues=tuple(_queues(lanes, engines, found)),
        nodes=tuple(_nodes(broker.registry.nodes(), engines, _suspected(snapshot))),
        is_led=broker.lease(Role.ORCHESTRATOR, _READER).leader() is not None,
        rates={stats.queue: found[stats.queue] for stats in snapshot.queues if stats.queue in found},
        shown=shown,
    )


def _lanes(
    snapshot: Snapshot, engines: list[EngineInfo], by_name: dict[str, Rates], *, is_ready_known: bool
) -> list[Lane]:
    able = [engine for engine in engines if engine.state is EngineState.READY]
    return [
        _lane(
            snapshot.at_ms,
            stats,
            lane,
            engines=sum(can_take(engine, lane) for engine in able),
            measured=by_name.get(lane.name),
            ready=lane.ready if is_ready_known else None,
        )
        for stats in sorted(snapshot.queues, key=lambda stats: stats.queue)
        for lane in stats.lanes
        if lane.length or lane.pending or lane.ready or _is_plain(lane)
    ]


def _queues(lanes: tuple[Lane, ...], engines: list[EngineInfo], by_name: dict[str, Rates]) -> Iterator[QueueLine]:
    """The lanes are in the order of their queues."""
    for queue, group in groupby(lanes, key=lambda lane: lane.queue):
        own = tuple(group)
        is_plain = len(own) == 1 and own[0].tier == Tier.MEDIUM and not own[0].capabilities
        yield QueueLine(
            queue=queue,
            waiting=_sum(lane.waiting for lane in own),
            ready=_sum(lane.ready for lane in own),
            running=sum(lane.running for lane in own),
            oldest_at=min((lane.oldest_at for lane in own if lane.oldest_at), default=None),
            engines=sum(engine.state is EngineState.READY and queue in engine.queues for engine in engines),
            paused=own[0].paused,
            rates=by_name.get(queue),
            lanes=() if is_plain else own,
        )


def _sum(numbers: Iterable[int | None]) -> int | None:
    """None if one of them is not known."""
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total


def can_take(engine: EngineInfo | EngineLine, lane: LaneStats) -> bool:
    needed = lane.capabilities.split("+") if lane.capabilities else ()
    return lane.queue in engine.queues and set(engine.capabilities).issuperset(needed)


def _is_plain(lane: LaneStats) -> bool:
    """The lane that is shown even when it is empty: otherwise its queue would be missing."""
    return lane.tier is Tier.MEDIUM and not lane.capabilities


def _lane(
    at_ms: int, stats: QueueStats, lane: LaneStats, *, engines: int, measured: Rates | None, ready: int | None
) -> Lane:
    oldest = None if lane.oldest_age_ms is None else moment_if(at_ms - lane.oldest_age_ms)
    return Lane(
        queue=lane.queue,
        capabilities=lane.capabilities,
        tier=lane.tier,
        waiting=lane.waiting if lane.consistent else None,
        ready=ready,
        running=lane.pending,
        oldest_at=oldest,
        engines=engines,
        paused=stats.paused,
        rates=measured,
        sample=lane.name,
    )


def _rounded(measured: Rates) -> Rates:
    """To two significant digits: 0.4, 7.2, 53, 1200. A digit more would resend the row each tick."""
    return Rates(in_per_s=float(f"{measured.in_per_s:.2g}"), out_per_s=float(f"{measured.out_per_s:.2g}"))


def _suspected(snapshot: Snapshot) -> set[str]:
    """Queues with a running suspect."""
    return {
        lane.queue for stats in snapshot.queues for lane in stats.lanes if lane.tier is Tier.SUSPECT and lane.pending
    }


def _nodes(nodes: list[NodeInfo], engines: list[EngineInfo], suspected: set[str]) -> list[NodeLine]:
    lines = [_node(node, _engines(node.node_id, engines, suspected)) for node in nodes]
    known = {node.node_id for node in nodes}
    alone = sorted({engine.node_id for engine in engines} - known)
    # Engines without a supervisor, or whose node has not sent a heartbeat yet.
    lines += [NodeLine(node_id, "", _engines(node_id, engines, suspected)) for node_id in alone]
    return sorted(lines, key=lambda line: line.id)


def _node(node: NodeInfo, engines: tuple[EngineLine, ...]) -> NodeLine:
    notes = (node.info.get("why"), node.info.get("config_error"))
    labels = node.info.get("labels") or {}
    return NodeLine(
        id=node.node_id,
        state=node.state,
        engines=engines,
        note="; ".join(str(note) for note in notes if note),
        labels=tuple(f"{name}: {value}" for name, value in labels.items()),
        disk_used=node.report.disk_used,
    )


def _engines(node_id: str, engines: list[EngineInfo], suspected: set[str]) -> tuple[EngineLine, ...]:
    own = sorted((engine for engine in engines if engine.node_id == node_id), key=lambda engine: engine.engine_id)
    return tuple(_engine(engine, suspected) for engine in own)


def _engine(engine: EngineInfo, suspected: set[str]) -> EngineLine:
    note, running, report = engine.info.get("why") or "", engine.info.get("running"), engine.report
    held = running if isinstance(running, int) else 0
    return EngineLine(
        id=engine.engine_id,
        node_id=engine.node_id,
        state=engine.state,
        queues=tuple(engine.queues),
        capabilities=tuple(engine.capabilities),
        capacity=engine.capacity,
        note=str(note),
        is_full=held >= engine.capacity or (held == 1 and _may_be_suspect(engine, suspected)),
        is_empty=held == 0,
        running=held,
        breaker=report.breaker,
        probe_failing=report.probe_failing,
        probe_failures=report.probe_failures,
    )


def _may_be_suspect(engine: EngineInfo, suspected: set[str]) -> bool:
    """A suspect runs alone. Which of a queue's tasks is one, heartbeats don't say, so any task of the queue may be."""
    if not suspected:
        return False
    queues = {task.queue for task in engine.report.tasks} or set(engine.queues)
    return not suspected.isdisjoint(queues)

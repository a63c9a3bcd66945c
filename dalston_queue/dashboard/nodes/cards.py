"""Cards: nodes, engines and tasks as plain values, made from heartbeats. Pure: takes the registry and the time.

Values hold times, not ages. A heartbeat is shown only once it is late: a time that moves with each one would resend
every row for nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from dalston_queue.broker.engine.breaker import BreakerState
from dalston_queue.broker.engine.remote import NODE as WORKERS_NODE
from dalston_queue.broker.nodes.registry import EngineInfo, NodeInfo
from dalston_queue.broker.nodes.reports import DrainReport, ExitReport, GpuReport, RunningTask
from dalston_queue.broker.protocol.types import EngineState, NodeState
from dalston_queue.broker.protocol.validate import moment_if

BREAKERS: dict[str, str] = {BreakerState.OPEN: "open", BreakerState.HALF_OPEN: "half-open"}
LATE_BEATS = 3
"""Missed heartbeats until a page shows it. A little later the orchestrator judges the engine dead."""


@dataclass(frozen=True, slots=True)
class TaskCard:
    """A task that an engine runs."""

    id: str
    queue: str
    attempt: int
    percent: int | None
    message: str
    started_at: datetime | None
    deadline_at: datetime | None
    job_id: str = ""  # from the task's record; empty without one


@dataclass(frozen=True, slots=True)
class ExitCard:
    engine_id: str
    slot: str
    at: datetime | None
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class EngineCard:
    id: str
    slot: str  # as in `demo.0`; without a supervisor, the engine's id
    kind: str  # the engine's name in commands; empty without a supervisor: no commands, no log
    state: str
    why: str
    version: str
    queues: tuple[str, ...]
    capabilities: tuple[str, ...]
    capacity: int
    running: int
    tasks: tuple[TaskCard, ...]
    restarts: int
    exits: tuple[ExitCard, ...]
    started_at: datetime | None
    late_since: datetime | None
    usage: str = ""  # CPU and memory, where the page has room for it
    gpus: tuple[str, ...] = ()
    breaker: str = ""  # open or half-open: the state of its circuit breaker
    over_http: bool = False  # a worker: learns from the responses to its calls that it should drain
    drain_requested: bool = False  # by an operator

    @property
    def accepts_commands(self) -> bool:
        """True for a live worker over HTTP, which is drained directly and not by a command to its node."""
        return self.over_http and self.state != EngineState.DEAD


@dataclass(frozen=True, slots=True)
class DrainCard:
    engines_left: int
    in_flight: int
    ends_at: datetime | None


@dataclass(frozen=True, slots=True)
class NodeCard:
    id: str
    state: str  # empty: no supervisor
    why: str
    problem: str  # what is wrong with its files
    labels: tuple[str, ...]
    late_since: datetime | None
    gpu_problem: str
    engines: tuple[EngineCard, ...]
    gpus: tuple[GpuReport, ...]
    drain: DrainCard | None = None

    @property
    def supervised(self) -> bool:
        """A live supervisor answers commands."""
        return bool(self.state) and self.state != NodeState.DEAD

    @property
    def over_http(self) -> bool:
        """Not a machine: the list of workers over HTTP."""
        return not self.state and self.id == WORKERS_NODE

    @property
    def running(self) -> int:
        return sum(engine.running for engine in self.engines)

    @property
    def kinds(self) -> dict[str, int]:
        """The engines that can be restarted and scaled, and how many of each there are."""
        return dict(sorted(Counter(engine.kind for engine in self.engines if engine.kind).items()))

    @property
    def words(self) -> str:
        """Its engines by state: 6 ready, 1 crashloop."""
        if not self.engines:
            return "no engines"
        states = Counter(engine.state for engine in self.engines)
        return ", ".join(f"{count} {state}" for state, count in sorted(states.items(), key=_ready_first))

    @property
    def last_ends_at(self) -> datetime | None:
        """When the last running task must be over; None if one of them has no deadline, or there is none."""
        ends = [task.deadline_at for engine in self.engines for task in engine.tasks]
        known = [end for end in ends if end is not None]
        return max(known) if known and len(known) == len(ends) else None


def cards(nodes: Sequence[NodeInfo], engines: Sequence[EngineInfo], now: datetime) -> list[NodeCard]:
    """By node id. Engines without a supervisor are listed under the node that they report, or under an empty one."""
    by_node: dict[str, list[EngineInfo]] = {}
    for engine in engines:
        by_node.setdefault(engine.node_id, []).append(engine)
    known = {node.node_id: node for node in nodes}
    names = sorted({*known, *by_node})
    return [_node(name, known.get(name), by_node.get(name, ()), now) for name in names]


def _node(name: str, node: NodeInfo | None, engines: Iterable[EngineInfo], now: datetime) -> NodeCard:
    found = (_engine(engine, now, alone=node is None) for engine in engines)
    own = tuple(sorted(found, key=lambda card: (_natural(card.slot), card.id)))
    if node is None:
        return NodeCard(name, "", "", "", (), None, "", own, ())
    report = node.report
    return NodeCard(
        id=name,
        state=node.state,
        why=report.why,
        problem=report.config_error,
        labels=tuple(f"{label}: {value}" for label, value in report.labels.items()),
        late_since=_late(node.at_ms, now),
        gpu_problem=report.gpus.problem,
        engines=own,
        gpus=tuple(report.gpus.devices),
        drain=_drain(report.drain, node.at_ms),
    )


def _engine(engine: EngineInfo, now: datetime, *, alone: bool) -> EngineCard:
    report = engine.report
    slot = report.slot or engine.engine_id.removeprefix(f"{engine.node_id}.")
    gone = engine.state is EngineState.DEAD
    return EngineCard(
        id=engine.engine_id,
        slot=slot,
        kind="" if alone else report.engine or report.slot.rpartition(".")[0],
        state=engine.state,
        why="" if report.why == engine.state else report.why,
        version=report.version,
        queues=engine.queues,
        capabilities=engine.capabilities,
        capacity=engine.capacity,
        running=0 if gone else max(report.running, len(report.tasks)),
        tasks=tuple(_task(task) for task in report.tasks),
        restarts=report.exits,
        exits=tuple(_exit(slot, each) for each in report.last_exits),
        started_at=moment_if(report.started_at_ms),
        late_since=_late(engine.at_ms, now),
        usage=f"{report.cpu_percent:.0f} % CPU, {report.memory_mib:.0f} MiB" if report.pid else "",
        gpus=tuple(report.gpus),
        breaker="" if gone else BREAKERS.get(report.breaker, ""),
        over_http=alone and engine.node_id == WORKERS_NODE,
        drain_requested=engine.drain_requested,
    )


def _task(task: RunningTask) -> TaskCard:
    percent = round(100 * min(1.0, max(0.0, task.fraction))) if task.fraction else None
    started, deadline = moment_if(task.started_at_ms), moment_if(task.deadline_ms)
    return TaskCard(task.task_id, task.queue, task.attempt, percent, task.message, started, deadline)


def _exit(slot: str, report: ExitReport) -> ExitCard:
    return ExitCard(report.engine_id, slot, moment_if(report.at_ms), report.kind.replace("_", " "), report.text)


def _drain(report: DrainReport | None, at_ms: int) -> DrainCard | None:
    if report is None:
        return None
    ends_at = None if report.ends_in_s is None else moment_if(at_ms + round(report.ends_in_s * 1000))
    # To ten seconds: it is an upper bound, and moves with every heartbeat.
    rounded = None if ends_at is None else ends_at.replace(microsecond=0) - timedelta(seconds=ends_at.second % 10)
    return DrainCard(report.engines_left, report.in_flight, rounded)


def _late(at_ms: int, now: datetime) -> datetime | None:
    at = moment_if(at_ms)
    late = timedelta(seconds=LATE_BEATS * settings.DALSTON_HEARTBEAT_S)
    return at if at is None or now - at > late else None


def _natural(slot: str) -> tuple[str, int]:
    """demo.10 after demo.9."""
    name, _, number = slot.rpartition(".")
    return (name, int(number)) if number.isdigit() else (slot, 0)


def _ready_first(item: tuple[str, int]) -> tuple[bool, str]:
    return (item[0] != EngineState.READY, item[0])

"""Values of the overview: read once per tick from Postgres and Redis, the same for every viewer.

A part that cannot be read is None, and the page says "not known". It is never shown as zero.
Values hold times, not ages: an age would differ with each tick, and every row would count as changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dalston_queue.broker.views.snapshot import Rates, Snapshot
from dalston_queue.dashboard.alerts.read import AlertLine
from dalston_queue.dashboard.parts.charts import Numbers
from dalston_queue.jobs.queries.lanes import ReadyByQueue
from dalston_queue.jobs.queries.queues import ALL, Selection


@dataclass(frozen=True, slots=True)
class Lane:
    """One tier of one lane, which is a stream; `waiting` is None when Redis' own numbers contradict each other.

    `ready` of them wait in Postgres, the others in the window. None: Postgres does not answer, and only those in the
    window are counted."""

    queue: str
    capabilities: str
    tier: str
    waiting: int | None
    ready: int | None
    running: int
    oldest_at: datetime | None
    engines: int
    paused: bool
    rates: Rates | None  # None: not known yet
    sample: str  # its name in the whole deployment; what its minute samples are called


@dataclass(frozen=True, slots=True)
class QueueLine:
    """One queue: its lanes together. The same unknowns as in a lane."""

    queue: str
    waiting: int | None
    ready: int | None
    running: int
    oldest_at: datetime | None
    engines: int  # that are ready and serve it
    paused: bool
    rates: Rates | None
    lanes: tuple[Lane, ...]  # with tasks; without the one that a queue always has, if that is the only one


@dataclass(frozen=True, slots=True)
class Hour:
    """The last hour of a queue, from its minute samples."""

    completed: int
    failed: int
    median_wait_s: float | None  # None: no task ended
    p95_wait_s: float | None  # of the worst minute


@dataclass(frozen=True, slots=True)
class RecentTask:
    id: str
    job_id: str
    task_type: str
    queue: str
    status: str
    priority: str
    attempt: int
    engine: str
    error: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    percent: int | None = None  # None: the engine reports no progress
    message: str = ""

    @property
    def touched_at(self) -> datetime:
        return self.finished_at or self.started_at or self.created_at


@dataclass(frozen=True, slots=True)
class EngineLine:
    id: str
    node_id: str
    state: str
    queues: tuple[str, ...]
    capabilities: tuple[str, ...]
    capacity: int
    note: str
    is_full: bool = False  # as many running tasks as its capacity, of any queue; or a suspect, which runs alone
    is_empty: bool = True  # no running task: only then it takes a suspect
    running: int = 0  # tasks
    breaker: str = "closed"  # the state of its circuit breaker
    probe_failing: bool = False  # its health check fails
    probe_failures: int = 0  # failed health checks since its supervisor's start


@dataclass(frozen=True, slots=True)
class NodeLine:
    id: str
    state: str
    engines: tuple[EngineLine, ...]
    note: str = ""  # why it drains or is cordoned, and what is wrong with its files
    labels: tuple[str, ...] = ()
    disk_used: float | None = None  # share of its disk in use; None: not reported


@dataclass(frozen=True, slots=True)
class DutyLine:
    """A recurring duty of the housekeeping process and its last run."""

    name: str
    every_s: float
    last_run_at: datetime
    error: str
    took_ms: int = 0
    repaired: int = 0  # by the last run
    failures: int = 0  # in a row


@dataclass(frozen=True, slots=True)
class LeaderLine:
    """The process that took a role's lease last. Whether it holds the lease now, only Redis knows."""

    role: str
    holder: str
    term: int
    since: datetime


@dataclass(frozen=True, slots=True)
class InRedis:
    """What only Redis knows, and in its numbers of lanes what waits in Postgres, if Postgres answers."""

    snapshot: Snapshot
    lanes: tuple[Lane, ...]
    nodes: tuple[NodeLine, ...]
    is_led: bool  # an orchestrator holds the lease
    rates: dict[str, Rates]  # by queue; empty while not known
    queues: tuple[QueueLine, ...] = ()
    shown: Selection = ALL  # which queues these are


@dataclass(frozen=True, slots=True)
class InPostgres:
    """What only Postgres knows."""

    tasks: tuple[RecentTask, ...]
    dead_letters: int
    duties: tuple[DutyLine, ...]
    leaders: tuple[LeaderLine, ...] = ()
    alerts: tuple[AlertLine, ...] = ()  # that fire or are about to
    dead_letters_made: int = 0  # in the last hour, counted as far as the open ones
    ready: ReadyByQueue = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Past:
    """The last hour in minute samples, oldest first; None for a minute that has none."""

    lanes: Mapping[str, Sequence[Numbers | None]] = field(default_factory=dict)  # by Lane.sample
    queues: Mapping[str, Sequence[Numbers | None]] = field(default_factory=dict)
    dead_letters: Sequence[Numbers | None] = ()
    tasks: Sequence[Numbers | None] = ()  # of all queues together
    workers: Sequence[Numbers | None] = ()


@dataclass(frozen=True, slots=True)
class Overview:
    at: datetime
    redis: InRedis | None
    postgres: InPostgres | None
    past: Past = field(default_factory=Past)

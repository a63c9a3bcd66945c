"""The facade: one object per process, thin, over one module per noun. Thread-safe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dalston_queue.broker.commands import NodeChannel
from dalston_queue.broker.lease import Lease
from dalston_queue.broker.messages import ErrorInfo, Event, TaskMessage
from dalston_queue.broker.pending import PendingOrder, PendingPage
from dalston_queue.broker.record import Record
from dalston_queue.broker.recovery import Expired, TakenBack
from dalston_queue.broker.registry import Registry
from dalston_queue.broker.snapshot import Snapshot
from dalston_queue.broker.types import Appended, Cause, Removed, Role


class Broker:
    registry: Registry

    # submit and dispatch

    def append(self, messages: Sequence[TaskMessage]) -> list[Appended]:
        """Put attempts in line, in one pipeline; the answers in order. Repeatable: by task and attempt, and by the entry's
        existence (a record whose entry is gone gets a new one). A live entry of an older attempt is removed first.
        Raises Denied when Redis is out of memory, Invalid or TooManyLanes for a bad message (nothing appended)."""
        raise NotImplementedError

    def publish_jobs_created(self, job_ids: Iterable[str]) -> None:
        """A hint for the orchestrators (capped; pending jobs are polled as well)."""
        raise NotImplementedError

    def remove(self, queue: str, task_id: str, attempt: int | None = None) -> Removed:
        """Remove a waiting task in O(1). A running one is left alone."""
        raise NotImplementedError

    def request_cancel(self, queue: str, task_id: str, attempt: int | None = None) -> Removed:
        """Remove a waiting task; ask the engine of a running one to stop (it settles Cancelled)."""
        raise NotImplementedError

    def records(self, queue: str, task_ids: Sequence[str]) -> dict[str, Record]:
        """What Redis knows of these tasks; a task without a record is not in the answer."""
        raise NotImplementedError

    # recovery and ageing

    def take_back(
        self,
        engine_id: str,
        queues: Iterable[str],
        cause: Cause = Cause.ENGINE_LOST,
        *,
        judged: Mapping[str, int] | None = None,
        named: str | None = None,
        error: ErrorInfo | None = None,
        max_deliveries: int = 3,
        max_losses: int = 10,
    ) -> TakenBack:
        """Put everything this engine holds back in line and end its sessions.

        judged: the pulse's counters the verdict was made at, rechecked in the script; None: the caller saw it die (waitpid).
        cause ENGINE_LOST charges deliveries of the named task, or of the only one it ran; NODE_LOST charges losses of all.
        error: message and evidence (exit code, log lines) that go into the events."""
        raise NotImplementedError

    def expire(
        self, queue: str, task_id: str, attempt: int, error: ErrorInfo, *, judged_ms: int | None = None
    ) -> Expired:
        """Take a running task from its owner and report it failed (deadline passed: error.cause TIMEOUT). The supervisor calls
        it before it kills, the scanner 30 s later or after the absolute timeout. judged_ms: the renewed_at_ms that was
        judged too old, rechecked in the script."""
        raise NotImplementedError

    def promote(self, queue: str, *, now_ms: int | None = None, batch: int = 100) -> list[Event]:
        """One batch of ageing in this queue; the events (task.promoted, with the new tier) are also in the event stream. Call again while it
        returns a full batch. now_ms only for tests; the default is the server's clock."""
        raise NotImplementedError

    # queues

    def queues(self) -> list[str]:
        """Queues that exist (seed 000: discover_streams), without a scan."""
        raise NotImplementedError

    def lanes(self, queue: str) -> list[str]:
        """Capability sets that have a lane in this queue ("" is the plain one)."""
        raise NotImplementedError

    def pause(self, queue: str) -> None:
        """Engines claim nothing from this queue until resume()."""
        raise NotImplementedError

    def resume(self, queue: str) -> None:
        raise NotImplementedError

    def reset_queue(self, queue: str) -> None:
        """Delete every key of this queue. For tests and for an operator who has removed a stage."""
        raise NotImplementedError

    def retire_empty_lanes(self, queue: str) -> list[str]:
        """Delete lanes without any entry; makes room under the cap of 32 and frees their memory."""
        raise NotImplementedError

    def acknowledge_ghosts(self, queue: str) -> list[str]:
        """Acknowledge pending entries whose payload is gone (XDEL by a foreign hand, a trim) and delete their records;
        returns the task ids, for the reconciler to rebuild."""
        raise NotImplementedError

    # views

    def snapshot(self, queues: Sequence[str] | None = None) -> Snapshot:
        raise NotImplementedError

    def pending(
        self,
        queue: str,
        *,
        order: PendingOrder = PendingOrder.IDLE,
        offset: int = 0,
        limit: int = 50,
        min_idle_ms: int = 0,
        overdue_by_ms: int | None = None,
    ) -> PendingPage:
        """A page of running entries. min_idle_ms: only those not renewed for so long (order IDLE). overdue_by_ms: only those past
        their deadline by so much (order DEADLINE)."""
        raise NotImplementedError

    # leadership, nodes, health

    def lease(self, role: Role, token: str, ttl_s: float = 30.0) -> Lease:
        raise NotImplementedError

    def node(self, node_id: str) -> NodeChannel:
        raise NotImplementedError

    def ping(self) -> float:
        """Round trip to every shard, the slowest in seconds; raises Unavailable naming the shard."""
        raise NotImplementedError

    def check(self) -> list[str]:
        """What is wrong with the servers' configuration, one sentence each: eviction policy, version, clock, memory, persistence."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


def connect(url: str, *, prefix: str = "dalston", cluster: bool = False, shards: str = "") -> Broker:
    """Make a Broker. url: redis://, rediss:// (TLS), unix://, redis+sentinel://host:port,host:port/service/db, with user and
    password for ACL. cluster: the url names any node of a Redis Cluster. shards: `DALSTON_REDIS_URLS`, comma or newline separated
    "queue/priority=url" with * as wildcard, first match wins, the url itself serves the rest. Connects lazily."""
    raise NotImplementedError

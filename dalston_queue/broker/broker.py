"""The facade: one object per process, thin, over one module per noun. Thread-safe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from dalston_queue.broker.ageing.promote import promote
from dalston_queue.broker.connection.health import check_server, round_trip
from dalston_queue.broker.connection.topology import Topology
from dalston_queue.broker.connection.urls import SOCKET_TIMEOUT_S, routes
from dalston_queue.broker.events import forget_idle_readers
from dalston_queue.broker.nodes.commands import NodeChannel
from dalston_queue.broker.nodes.logs import NodeLogs
from dalston_queue.broker.nodes.registry import Registry
from dalston_queue.broker.operations.append import append, publish_jobs_created
from dalston_queue.broker.operations.cancel import cancel, read_records, scan_records
from dalston_queue.broker.operations.lanes import acknowledge_ghosts, delete_queue, read_lanes, set_paused
from dalston_queue.broker.operations.lease import Lease
from dalston_queue.broker.operations.rate import Limit, take
from dalston_queue.broker.operations.reclaim import Expired, Judged, Reclaim, Reclaimed, expire, places, reclaim
from dalston_queue.broker.operations.requeue import Requeued, requeue
from dalston_queue.broker.protocol.keys import Keys
from dalston_queue.broker.protocol.messages import ErrorInfo, Event, TaskMessage
from dalston_queue.broker.protocol.record import Record
from dalston_queue.broker.protocol.types import Appended, Cause, Removed, Role
from dalston_queue.broker.views.pending import PendingEntry, PendingOrder, PendingPage, pending_page
from dalston_queue.broker.views.snapshot import Snapshot
from dalston_queue.broker.views.snapshot_reader import SnapshotReader
from dalston_queue.broker.views.stream_page import LanePlace, WaitingEntry, held_page, waiting_page

_BY_WEIGHT = (Removed.FLAGGED, Removed.RUNNING, Removed.SETTLED, Removed.REMOVED, Removed.ABSENT)


class Broker:
    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.registry = Registry(topology)
        self._snapshots = SnapshotReader(topology)

    # submit and dispatch

    def append(self, messages: Sequence[TaskMessage]) -> list[Appended]:
        """Put attempts in line, in one pipeline; the answers in order. Repeatable: by task and attempt, and by the
        entry's existence (a record whose entry is gone gets a new one). A live entry of an older attempt is removed
        first. Raises Denied when Redis is out of memory, Invalid for a bad message (nothing appended), TooManyLanes
        or WrongKeyType when a lane can't be used: what goes to other lanes may be appended then, and can be
        repeated."""
        return append(self.topology, messages)

    def publish_jobs_created(self, job_ids: Iterable[str]) -> None:
        """A hint for the orchestrators (capped; pending jobs are polled as well)."""
        publish_jobs_created(self.topology.home, job_ids)

    def remove(self, queue: str, task_id: str, attempt: int | None = None) -> Removed:
        """Remove a waiting task in O(1). A running one is left alone."""
        return self._cancel(queue, task_id, attempt, flag=False)

    def request_cancel(self, queue: str, task_id: str, attempt: int | None = None) -> Removed:
        """Remove a waiting task; ask the engine of a running one to stop (it settles Cancelled)."""
        return self._cancel(queue, task_id, attempt, flag=True)

    def records(self, queue: str, task_ids: Sequence[str]) -> dict[str, Record]:
        """What Redis knows of these tasks; a task without a record is not in the answer."""
        found: dict[str, Record] = {}
        # from the lowest priority up, as ageing carries tasks: one on its way is not missed
        for shard in reversed(self.topology.shards_of(queue)):
            for task_id, record in read_records(shard, queue, task_ids).items():
                # while a task moves between shards both may know it for a moment: the later one counts
                if task_id not in found or record > found[task_id]:
                    found[task_id] = record
        return found

    def scan_records(self, queue: str, page: int = 1000) -> Iterator[dict[str, Record]]:
        """All that Redis knows of a queue, a page at a time: for the reconciler."""
        for shard in self.topology.shards_of(queue):
            yield from scan_records(shard, queue, page)

    # recovery and ageing

    def reclaim(
        self,
        engine_id: str,
        queues: Iterable[str],
        cause: Cause = Cause.ENGINE_LOST,
        *,
        judged: Judged | None = None,
        named: str | None = None,
        error: ErrorInfo | None = None,
        max_deliveries: int,
        max_losses: int,
    ) -> Reclaimed:
        """Put everything this engine holds back in line and end its sessions.

        judged: the pulse's counters the verdict was made at, rechecked in the script; None: the caller saw it die
        (waitpid). cause ENGINE_LOST charges deliveries of the named task, or of the only one it ran, and losses of all
        when it ran several and none is named; NODE_LOST charges losses of all. A task that reaches max_deliveries or
        max_losses is exhausted. error: message and evidence (exit code, log lines) that go into the events."""
        request = Reclaim(
            engine_id=engine_id,
            cause=cause,
            named=named,
            error=error or ErrorInfo(message=f"{engine_id} was lost", cause=cause),
            max_deliveries=max_deliveries,
            max_losses=max_losses,
        )
        return reclaim(places(self.topology, queues, judged), request)

    def expire(
        self, queue: str, task_id: str, attempt: int, error: ErrorInfo, *, judged_ms: int | None = None
    ) -> Expired:
        """Take a running task from its owner and report it failed (deadline passed: error.cause TIMEOUT). The
        supervisor calls it before it kills, the scanner 30 s later or after the absolute timeout. judged_ms: the
        renewed_at_ms that was judged too old, rechecked in the script."""
        for shard in self.topology.shards_of(queue):
            answer = expire(shard, queue, task_id, attempt, error, judged_ms)
            if answer is not Expired.ABSENT:
                return answer
        return Expired.ABSENT

    def requeue(self, queue: str, task_id: str, attempt: int, error: ErrorInfo, *, entry_id: str = "") -> Requeued:
        """Take a running task from its engine and put it back in line, uncounted. entry_id: the delivery that was
        seen; if another engine has it by now, it is left alone."""
        answer = Requeued.ABSENT
        for shard in self.topology.shards_of(queue):
            answer = requeue(shard, queue, task_id, attempt, entry_id, error)
            if answer is not Requeued.ABSENT:
                break
        return answer

    def promote(self, queue: str, *, now_ms: int | None = None, batch: int = 100) -> list[Event]:
        """One batch of ageing in this queue; the events (task.promoted, with the new tier) are also in the event
        stream. Call again while it returns a full batch. now_ms only for tests; the default is the server's clock."""
        return promote(self.topology, queue, now_ms, batch)

    # queues

    def queues(self) -> list[str]:
        """Queues that exist, without a scan."""
        return sorted({name for shard in self.topology.shards for name in shard.queues()})

    def lanes(self, queue: str) -> list[str]:
        """Capability sets that have a lane in this queue ("" is the plain one)."""
        return sorted(
            {lane for shard in self.topology.shards_of(queue) for lane in read_lanes(shard, queue).capabilities}
        )

    def pause(self, queue: str) -> None:
        """Engines claim nothing from this queue until resume()."""
        for shard in self.topology.shards_of(queue):
            set_paused(shard, queue, True)

    def resume(self, queue: str) -> None:
        for shard in self.topology.shards_of(queue):
            set_paused(shard, queue, False)

    def reset_queue(self, queue: str) -> None:
        """Delete every key of this queue. For tests and for an operator who has removed a stage."""
        for shard in self.topology.shards_of(queue):
            delete_queue(shard, queue)

    def acknowledge_ghosts(self, queue: str) -> int:
        """Acknowledge pending entries whose payload is gone (XDEL by a foreign hand, a trim). Their tasks are put in
        line again by append, which looks for the entry. Call it when a lane is inconsistent; returns how many."""
        return sum(acknowledge_ghosts(shard, queue) for shard in self.topology.shards_of(queue))

    # views

    def snapshot(self, queues: Sequence[str] | None = None) -> Snapshot:
        """The numbers of all lanes, or of those of some queues: one round trip per server. One or two more when there
        is a queue or a lane that was not there the last time."""
        return self._snapshots.snapshot(queues)

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
        """A page of running entries. min_idle_ms: only those not renewed for so long (order IDLE). overdue_by_ms:
        only those past their deadline by so much (order DEADLINE)."""
        shards = self.topology.shards_of(queue)
        return pending_page(shards, queue, order, offset, limit, min_idle_ms, overdue_by_ms)

    def waiting(
        self, queue: str, *, place: LanePlace | None = None, after: str = "", limit: int = 50
    ) -> list[WaitingEntry]:
        """Who is next in line: over all lanes in claiming order, or any page of one lane."""
        return waiting_page(self.topology.shards_of(queue), queue, place, after, limit)

    def held(
        self, queue: str, *, place: LanePlace | None = None, engine_id: str = "", after: str = "", limit: int = 50
    ) -> list[PendingEntry]:
        """What is running of one lane, or at one engine. `after` (an entry id) needs a lane."""
        return held_page(self.topology.shards_of(queue), queue, place, engine_id, after, limit)

    def forget_idle_readers(self, idle_ms: int = 3_600_000) -> int:
        """Remove event readers that were killed: they have not asked for an hour and hold nothing."""
        return forget_idle_readers(self.topology, idle_ms)

    # leadership, nodes, health

    def lease(self, role: Role, token: str, ttl_s: float = 30.0) -> Lease:
        return Lease(self.topology.home, role, token, ttl_s)

    def node(self, node_id: str) -> NodeChannel:
        return NodeChannel(self.topology.home, node_id)

    def logs(self, node_id: str) -> NodeLogs:
        return NodeLogs(self.topology.home, node_id)

    def take_rate(self, caller: str, limits: Sequence[Limit]) -> float:
        """Count one request of this caller. Returns 0, or the seconds after which it may try again (then not
        counted)."""
        return take(self.topology.home, caller, limits)

    def ping(self) -> float:
        """Round trip to every shard, the slowest in seconds; raises Unavailable naming the shard."""
        return max(round_trip(shard) for shard in self.topology.shards)

    def check(self) -> list[str]:
        """What is wrong with the servers' configuration, one sentence each: eviction policy, version, clock, memory,
        persistence."""
        return [finding for shard in self.topology.shards for finding in check_server(shard)]

    def close(self) -> None:
        for shard in self.topology.shards:
            shard.close()

    def _cancel(self, queue: str, task_id: str, attempt: int | None, flag: bool) -> Removed:
        # From the lowest priority up, as ageing carries tasks: one on its way is not missed. Two shards may know it
        # then, and where it runs or has ended says more than a reservation or a note that was removed.
        shards = reversed(self.topology.shards_of(queue))
        answers = {cancel(shard, queue, task_id, attempt, flag) for shard in shards}
        return next(answer for answer in _BY_WEIGHT if answer in answers)


def connect(
    url: str,
    *,
    prefix: str = "dalston",
    cluster: bool = False,
    shards: str = "",
    timeout_s: float = SOCKET_TIMEOUT_S,
    before_each: Callable[[], None] | None = None,
) -> Broker:
    """Make a Broker. url: redis://, rediss:// (TLS), unix://, redis+sentinel://host:port,host:port/service/db, with
    user and password for ACL. cluster: the url names any node of a Redis Cluster. shards: `DALSTON_REDIS_URLS`,
    comma or newline separated "queue/priority=url" with * as wildcard, first match wins, the url itself serves the
    rest. timeout_s: how long a server may take to answer. before_each: for a web process, called before
    each call that may wait; such a broker has a circuit breaker per shard. Connects lazily."""
    return Broker(Topology(routes(url, Keys(prefix, cluster), shards, timeout_s, before_each)))

"""The numbers of all lanes: what waits in Postgres together with what is in Redis.

A task waits READY in Postgres, or undelivered in the window of its lane and tier in Redis. Shown as one number with its
two parts. Exact, and in the order of the number of lanes: one statement beside the snapshot of Redis.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
from django.db import connection

from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.types import TIERS, Priority, Tier
from dalston_queue.broker.views.snapshot import LaneStats, QueueStats, Snapshot

# The rows of the depth, and one entry of task_ready_by_age per lane and tier.
READY = """
    SELECT d.lane, d.tier, d.ready, t.first_enqueued_at
    FROM (
        SELECT lane, tier, sum(ready) AS ready FROM dalston_depth
        WHERE %(queues)s::text[] IS NULL OR split_part(lane, '@', 1) = ANY(%(queues)s)
        GROUP BY lane, tier HAVING sum(ready) > 0
    ) AS d LEFT JOIN LATERAL (
        SELECT first_enqueued_at FROM dalston_task
        WHERE status = 'ready' AND lane = d.lane AND tier = d.tier ORDER BY first_enqueued_at, id LIMIT 1
    ) AS t ON true"""


class Ready(NamedTuple):
    """How many tasks are READY in a lane and tier, and since when the oldest one waits."""

    tasks: int
    since: datetime | None


ReadyByQueue = Mapping[str, Mapping[tuple[str, Tier], Ready]]
"""By queue, then by capabilities and tier; without those that are empty."""


def read_lanes(broker: Broker, queues: Sequence[str] | None = None) -> Snapshot:
    """A snapshot of all queues, or of some, with what waits in Postgres. Raises BrokerError, and django.db.Error."""
    return with_ready(broker, broker.snapshot(queues), read_ready(queues))


def read_ready(queues: Sequence[str] | None = None) -> ReadyByQueue:
    """What waits in Postgres, in all queues or in some."""
    with connection.cursor() as cursor:
        cursor.execute(READY, {"queues": None if queues is None else list(queues)})
        found: defaultdict[str, dict[tuple[str, Tier], Ready]] = defaultdict(dict)
        for lane, tier, tasks, since in cursor.fetchall():
            queue, _, capabilities = lane.partition("@")
            found[queue][capabilities, Tier(tier)] = Ready(tasks, since)
    return dict(found)


def with_ready(broker: Broker, snapshot: Snapshot, ready: ReadyByQueue) -> Snapshot:
    """Add what waits in Postgres to a snapshot of Redis. A queue that Redis does not know has its tasks there only."""
    queues = {stats.queue: stats for stats in snapshot.queues}
    queues |= {queue: _empty(queue) for queue in ready if queue not in queues}
    merged = [_with_ready(broker, stats, ready.get(queue, {}), snapshot.at_ms) for queue, stats in queues.items()]
    return Snapshot(at_ms=snapshot.at_ms, queues=sorted(merged, key=lambda stats: stats.queue))


def _empty(queue: str) -> QueueStats:
    return QueueStats(queue=queue, lanes=[], running=0, events_backlog=0, paused=False, counters={})


def _with_ready(broker: Broker, stats: QueueStats, ready: Mapping[tuple[str, Tier], Ready], at_ms: int) -> QueueStats:
    left = dict(ready)
    lanes = []
    for lane in stats.lanes:
        home = broker.shard_for(stats.queue, _priority(lane.tier)).index
        more = left.pop((lane.capabilities, lane.tier), None) if lane.shard == home else None
        lanes.append(_lane_with(lane, more, at_ms) if more else lane)
    for (capabilities, tier), more in left.items():
        lanes.append(_lane_with(_lane(broker, stats.queue, capabilities, tier), more, at_ms))
    return msgspec.structs.replace(stats, lanes=sorted(lanes, key=_order))


def _lane_with(lane: LaneStats, ready: Ready, at_ms: int) -> LaneStats:
    """Ages are by the snapshot's clock: so the time since which the oldest task waits does not vary."""
    ages = [] if lane.oldest_age_ms is None else [lane.oldest_age_ms]
    if ready.since is not None:
        ages.append(max(0, at_ms - int(ready.since.timestamp() * 1000)))
    return msgspec.structs.replace(lane, ready=ready.tasks, oldest_age_ms=max(ages, default=None))


def _lane(broker: Broker, queue: str, capabilities: str, tier: Tier) -> LaneStats:
    """A lane that Redis does not know yet."""
    shard = broker.shard_for(queue, _priority(tier))
    return LaneStats(
        queue=queue,
        capabilities=capabilities,
        tier=tier,
        stream=shard.keys.stream(queue, capabilities, tier),
        shard=shard.index,
        length=0,
        pending=0,
        lag=0,
        consistent=True,
        consumers=0,
        oldest_age_ms=None,
        added=0,
        removed=0,
    )


def _priority(tier: Tier) -> Priority:
    """The priority whose shard holds a tier of Postgres; suspects may be of any, and count with the medium ones."""
    return Priority.MEDIUM if tier in (Tier.SUSPECT, Tier.RECOVERED) else Priority(tier)


def _order(lane: LaneStats) -> tuple[int, str, int]:
    return lane.shard, lane.capabilities, TIERS.index(lane.tier)

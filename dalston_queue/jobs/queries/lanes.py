"""The numbers of all lanes: what waits in Postgres together with what is in Redis.

A task waits READY in Postgres, or undelivered in the window of its lane and tier in Redis. Shown as one number with its
two parts. Exact, and in the order of the number of lanes.
"""

from collections import defaultdict
from collections.abc import Sequence

import msgspec
from django.db import connection

from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.keys import queue_of_lane
from dalston_queue.broker.protocol.types import TIERS, Priority, Tier
from dalston_queue.broker.views.snapshot import LaneStats, QueueStats, Snapshot
from dalston_queue.jobs.order.depth import LaneDepth, depths

# One index entry per lane and tier.
OLDEST_AGES = """
    SELECT l.lane, l.tier, 1000 * extract(epoch FROM clock_timestamp() - t.first_enqueued_at)
    FROM unnest(%s::text[], %s::text[]) AS l (lane, tier) CROSS JOIN LATERAL (
        SELECT first_enqueued_at FROM dalston_task
        WHERE status = 'ready' AND lane = l.lane AND tier = l.tier ORDER BY first_enqueued_at, id LIMIT 1
    ) AS t"""

Ready = tuple[int, int | None]
"""How many tasks are READY in a lane and tier, and the age of the oldest in ms."""


def read_lanes(broker: Broker, queues: Sequence[str] | None = None) -> Snapshot:
    """A snapshot of all queues, or of some, with what waits in Postgres. Raises BrokerError, and django.db.Error."""
    return with_ready(broker, broker.snapshot(queues), queues)


def with_ready(broker: Broker, snapshot: Snapshot, queues: Sequence[str] | None = None) -> Snapshot:
    """Add what waits in Postgres to a snapshot of Redis. A queue that Redis does not know has its tasks there only."""
    ready = _ready(queues)
    merged = [_with_ready(broker, queue, ready.pop(queue.queue, {})) for queue in snapshot.queues]
    unknown = [_with_ready(broker, _empty(queue), lanes) for queue, lanes in ready.items()]
    return Snapshot(at_ms=snapshot.at_ms, queues=sorted(merged + unknown, key=lambda stats: stats.queue))


def _ready(queues: Sequence[str] | None) -> dict[str, dict[tuple[str, Tier], Ready]]:
    """By queue, then by capabilities and tier."""
    found = [each for each in depths() if each.ready > 0 and (queues is None or queue_of_lane(each.lane) in queues)]
    ages = _oldest_ages(found)
    ready: defaultdict[str, dict[tuple[str, Tier], Ready]] = defaultdict(dict)
    for each in found:
        queue, _, capabilities = each.lane.partition("@")
        ready[queue][capabilities, Tier(each.tier)] = each.ready, ages.get(each.lane_tier)
    return dict(ready)


def _oldest_ages(found: Sequence[LaneDepth]) -> dict[tuple[str, str], int]:
    if not found:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(OLDEST_AGES, [[each.lane for each in found], [each.tier for each in found]])
        return {(lane, tier): max(0, int(age_ms)) for lane, tier, age_ms in cursor.fetchall()}


def _empty(queue: str) -> QueueStats:
    return QueueStats(queue=queue, lanes=[], running=0, events_backlog=0, paused=False, counters={})


def _with_ready(broker: Broker, stats: QueueStats, ready: dict[tuple[str, Tier], Ready]) -> QueueStats:
    left = dict(ready)
    lanes = []
    for lane in stats.lanes:
        home = broker.shard_for(stats.queue, _priority(lane.tier)).index
        more = left.pop((lane.capabilities, lane.tier), None) if lane.shard == home else None
        lanes.append(_lane_with(lane, more) if more else lane)
    for (capabilities, tier), more in left.items():
        lanes.append(_lane_with(_lane(broker, stats.queue, capabilities, tier), more))
    return msgspec.structs.replace(stats, lanes=sorted(lanes, key=_order))


def _lane_with(lane: LaneStats, ready: Ready) -> LaneStats:
    count, age_ms = ready
    ages = [age for age in (lane.oldest_age_ms, age_ms) if age is not None]
    return msgspec.structs.replace(lane, ready=count, oldest_age_ms=max(ages, default=None))


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

"""The Redis protocol of the queue: keys, messages, scripts, leases and heartbeats. Imports no Django.

Start at `connect(...)` for a Broker; an engine makes a `Consumer`, an orchestrator an `EventReader`.

broker         the facade: connect(), and Broker with one line per operation
errors         the tree of exceptions
operations/    what changes a queue from outside of an engine: append, cancel, requeue, reclaim …
engine/        an engine's end: claim, settle, renew, release
orchestrator/  the orchestrators' end: events, leadership
nodes/         the supervisors' end: heartbeats of nodes and engines, commands, logs
views/         snapshots and pages, read only
protocol/      keys, messages, records, and the validation of what comes out of Redis
connection/    shards, scripts, errors of redis-py, the circuit breaker
include/       Lua shared by scripts
"""

from __future__ import annotations

from dalston_queue.broker.broker import Broker, connect
from dalston_queue.broker.engine.consumer import Consumer, Exchanged, Renewed
from dalston_queue.broker.engine.delivery import Delivery
from dalston_queue.broker.orchestrator.events import EventReader
from dalston_queue.broker.protocol.keys import Keys

__all__ = ["Broker", "Consumer", "Delivery", "EventReader", "Exchanged", "Keys", "Renewed", "connect"]

"""The Redis protocol of the queue: keys, messages, scripts, leases and heartbeats. Imports no Django.

Start at `connect(...)` for a Broker; an engine makes a `Consumer`, an orchestrator an `EventReader`.

broker        the facade: connect(), and Broker with one line per operation
events        EventReader: the orchestrators' end
errors        the tree of exceptions
operations/   what changes a queue from outside of an engine: append, cancel, requeue, reclaim …
engine/       an engine's end: claim, settle, release, heartbeat
views/        snapshots and pages, read only
nodes/        heartbeats of nodes and engines, commands, logs
ageing/       longer waits count as higher priority
protocol/     what travels, under which names, and its validation
connection/   where calls go and how they fail
include/      Lua shared by scripts
"""

from __future__ import annotations

from dalston_queue.broker.broker import Broker, connect
from dalston_queue.broker.engine.consumer import Beat, Consumer, Exchanged
from dalston_queue.broker.engine.delivery import Delivery
from dalston_queue.broker.events import EventReader
from dalston_queue.broker.protocol.keys import Keys

__all__ = ["Beat", "Broker", "Consumer", "Delivery", "EventReader", "Exchanged", "Keys", "connect"]

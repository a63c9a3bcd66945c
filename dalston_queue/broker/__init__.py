"""The Redis protocol of the queue: keys, messages, scripts, leases and heartbeats. Imports no Django.

Start at `connect(...)` for a Broker; an engine makes a `Consumer`, an orchestrator an `EventReader`.
"""

from __future__ import annotations

from dalston_queue.broker.broker import Broker, connect
from dalston_queue.broker.engine.consumer import Beat, Consumer, Exchanged
from dalston_queue.broker.engine.delivery import Delivery
from dalston_queue.broker.events import EventReader
from dalston_queue.broker.protocol.keys import Keys

__all__ = ["Beat", "Broker", "Consumer", "Delivery", "EventReader", "Exchanged", "Keys", "connect"]

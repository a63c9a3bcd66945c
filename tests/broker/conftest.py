"""Helpers of the broker's tests: messages, engines and readers on the test's own prefix, removed after it."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from dalston_queue.broker import Broker, Consumer, EventReader, connect
from dalston_queue.broker.connection.scripts import files, load
from dalston_queue.broker.protocol.keys import JOBS
from dalston_queue.broker.protocol.messages import Event, Malformed, TaskMessage
from dalston_queue.broker.protocol.types import Role
from tests.broker.proxy import LossyProxy

BUDGETS: dict[str, Any] = {"max_deliveries": 3, "max_losses": 10}  # of reclaim, as the settings have them
MakeEngine = Callable[..., Consumer]
Counted = tuple[Broker, Callable[[Callable[[], object]], int]]


def message(task_id: str = "t1", **values: Any) -> TaskMessage:
    defaults: dict[str, Any] = {"job_id": f"job-{task_id}", "queue": "echo", "task_type": "echo", "attempt": 1}
    return TaskMessage(task_id=task_id, **{**defaults, **values})


def clean(broker: Broker) -> None:
    """Delete what a test left, through the broker's own API."""
    for queue in broker.queues():
        broker.reset_queue(queue)
    registry = broker.registry
    registry.forget([e.engine_id for e in registry.engines()], [n.node_id for n in registry.nodes()])
    home = broker.home
    for key in (home.keys.events(JOBS), *(home.keys.leader(role) for role in Role)):
        home.command("DEL", key)
    broker.close()


def open_consumer(broker: Broker, name: str = "e", queues: Sequence[str] = ("echo",), **options: Any) -> Consumer:
    made = Consumer(broker, name, queues, **options)
    made.open()
    return made


@pytest.fixture
def broker(redis_url: str, prefix: str) -> Iterator[Broker]:
    made = connect(redis_url, prefix=prefix)
    yield made
    clean(made)


@pytest.fixture
def proxy(redis_url: str) -> Iterator[LossyProxy]:
    made = LossyProxy(redis_url)
    yield made
    made.close()


@pytest.fixture
def lossy(proxy: LossyProxy, prefix: str) -> Iterator[Broker]:
    """A broker behind the proxy. The scripts are loaded: it is their own reply that gets lost, not a NOSCRIPT."""
    made = connect(proxy.url, prefix=prefix)
    for path in files().values():
        made.home.client.script_load(load(path.stem).source)
    yield made
    made.close()


@pytest.fixture
def counted(proxy: LossyProxy, prefix: str) -> Iterator[Counted]:
    """A broker behind the proxy, and a function that counts the round trips of a call."""
    made = connect(proxy.url, prefix=prefix)
    made.ping()  # connects, which takes round trips of its own

    def round_trips(call: Callable[[], object]) -> int:
        before = proxy.round_trips
        call()
        return proxy.round_trips - before

    yield made, round_trips
    made.close()


@pytest.fixture
def engine(broker: Broker) -> Iterator[MakeEngine]:
    """Open engines: engine("a", queues=["echo"], capacity=2)."""
    numbers = itertools.count(1)
    opened: list[Consumer] = []

    def make(name: str = "", queues: tuple[str, ...] = ("echo",), **options: Any) -> Consumer:
        opened.append(open_consumer(broker, name or f"node.engine.{next(numbers)}.boot", queues, **options))
        return opened[-1]

    yield make
    for consumer in opened:
        consumer.close()


@pytest.fixture
def reader(broker: Broker) -> Iterator[EventReader]:
    made = EventReader(broker, "orchestrator-1")
    yield made
    made.close()


def events_of(reader: EventReader) -> list[Event]:
    """Everything there is, acknowledged."""
    found: list[Event] = []
    while batch := reader.read(block_ms=0):
        for event in batch:
            assert not isinstance(event, Malformed), event
            found.append(event)
        reader.ack(batch)
    return found

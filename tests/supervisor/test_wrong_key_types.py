"""Keys of one queue hold another Redis type: the node goes on beating, receiving commands and reclaiming."""

import time

from dalston_queue.broker import Broker, Consumer
from dalston_queue.broker.nodes.commands import Command
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.messages import ErrorInfo
from dalston_queue.broker.protocol.types import Cause, EngineState, NodeState, RecordState
from supervisor.events import Commanded, Event
from supervisor.redis_link import Link, ReclaimWork, Report
from tests.broker.conftest import clean, message
from tests.support import wait_until


def test_a_queue_with_wrong_key_types_stops_neither_beats_nor_commands_nor_the_work_of_others(broker: Broker) -> None:
    keys, command = broker.home.keys, broker.home.command
    dead = [Consumer(broker, f"dead-{n}", ["bad", "echo"]) for n in (1, 2)]
    for n, consumer in enumerate(dead):
        consumer.open()
        broker.append([message(f"t{n}")])
        assert [claimed.task_id for claimed in consumer.claim()] == [f"t{n}"]
    for wrong_type in (keys.beats("bad"), keys.deadlines("bad")):
        command("DEL", wrong_type)
        command("SET", wrong_type, "foreign")
    heard: list[Event] = []
    link = Link(broker, "n1", heard.append, heartbeat_s=0.1, max_deliveries=3, max_losses=10)
    link.publish(
        Report(NodeState.ACTIVE, (EngineBeat(engine_id="e", state=EngineState.READY, queues=("bad", "echo")),), {})
    )
    for consumer in dead:
        link.send(ReclaimWork(consumer.engine_id, ("bad", "echo"), Cause.ENGINE_LOST, ErrorInfo(message="killed")))
    link.start()
    broker.node("n1").send(Command(name="drain"))

    def beats() -> int:
        link.alive_at = time.monotonic()
        return sum(node.beat for node in broker.registry.nodes())

    wait_until(lambda: beats() > 3, what="beats")
    wait_until(lambda: any(isinstance(each, Commanded) for each in heard), what="the command")
    records = broker.records("echo", ["t0", "t1"])
    assert {record.state for record in records.values()} == {RecordState.WAITING} and len(records) == 2
    link.close(5.0)
    command("DEL", keys.beats("bad"), keys.deadlines("bad"))
    for consumer in dead:
        command("DEL", keys.session("bad", consumer.engine_id))
    broker.registry.forget([], ["n1"])
    clean(broker)

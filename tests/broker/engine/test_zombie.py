"""A zombie: a real process that is stopped, judged dead and continued is refused and counted."""

import signal
from collections.abc import Callable
from pathlib import Path

from dalston_queue.broker import Broker, EventReader
from dalston_queue.broker.protocol.messages import Completed
from dalston_queue.broker.protocol.types import Cause, EventKind
from tests.broker.conftest import BUDGETS, MakeEngine, events_of, message
from tests.support import Spawned


def test_a_stopped_process_that_is_judged_dead_is_refused_when_it_continues(
    broker: Broker,
    engine: MakeEngine,
    reader: EventReader,
    spawn: Callable[..., Spawned],
    redis_url: str,
    prefix: str,
    tmp_path: Path,
) -> None:
    broker.append([message("a")])
    go = tmp_path / "go"
    zombie = spawn("tests/broker/engine/zombie_engine.py", redis_url, prefix, str(go))
    zombie.wait_for("claimed a")
    zombie.send(signal.SIGSTOP)
    judged = broker.registry.beat_counters()["zombie"]
    broker.registry.condemn(judged, Cause.NODE_LOST)
    assert broker.reclaim("zombie", ["echo"], Cause.NODE_LOST, judged=judged.counters, **BUDGETS).recovered == ("a",)
    (again,) = engine("heir").claim()
    assert again.settle(Completed("from the heir")) == "ok"
    go.touch()
    zombie.send(signal.SIGCONT)
    zombie.wait_for("fenced: the session of zombie in queue echo was ended")
    assert "holds []" in zombie.output and zombie.wait() == 0
    results = [e.result for e in events_of(reader) if e.kind is EventKind.TASK_COMPLETED]
    assert results == ["from the heir"]
    assert broker.snapshot().queues[0].counters["refused"] == 1

"""Another program replaced keys of one queue by keys of another type: that queue waits, the others go on."""

import pytest

from dalston_queue.broker import Broker, Consumer
from dalston_queue.broker.errors import WrongKeyType
from dalston_queue.broker.protocol.types import Role, Tier
from dalston_queue.models import Task
from dalston_queue.orchestrator.duties.reconciler import reconcile
from dalston_queue.orchestrator.duties.scanner import scan
from dalston_queue.orchestrator.leadership import Leadership
from dalston_queue.orchestrator.recovery import Recovery
from tests.broker.conftest import message
from tests.jobs import make
from tests.orchestrator.support import Steps, engine, run_to_the_end


def test_a_task_of_that_lane_waits_and_the_others_of_its_batch_run(broker: Broker, steps: Steps) -> None:
    home = broker.home
    bad, good = make.single("bad"), make.single("echo")
    home.command("SET", home.keys.stream("bad"), "foreign")
    with engine(broker, "bad", "echo") as consumer:
        run_to_the_end(steps, consumer)
        assert [Task.objects.get(id=task.id).status for task in (bad, good)] == ["ready", "completed"]
        home.command("DEL", home.keys.stream("bad"))
        run_to_the_end(steps, consumer)
    assert Task.objects.get(id=bad.id).status == "completed"


def test_the_duties_still_reach_every_other_queue(broker: Broker, steps: Steps) -> None:
    task, waiting = make.single("echo"), message("old", queue="echo", enqueued_at_ms=1000)
    make.single("bad")
    steps.poll()
    home = broker.home
    dead = Consumer(broker, "node.demo.0.boot", ["bad", "echo"], capacity=2)
    dead.open()
    assert len(dead.claim()) == 2
    broker.append([waiting])
    home.command("SET", home.keys.tasks("bad"), "foreign")
    recovery = Recovery(broker, Leadership(Role.ORCHESTRATOR, "test"))
    assert sum(recovery.poll(float(now)) for now in range(0, 30, 5)) == 0
    assert broker.records("echo", [str(task.id)])[str(task.id)].stream == home.keys.stream("echo", "", Tier.RECOVERED)
    with pytest.raises(WrongKeyType):
        reconcile()
    assert broker.records("echo", ["old"]) == {}, "no row has this task"
    with pytest.raises(WrongKeyType):
        scan()
    home.command("DEL", home.keys.tasks("bad"))
    scan()
    with engine(broker, "bad", "echo", name="node.demo.1.boot") as consumer:
        reconcile()
        run_to_the_end(steps, consumer)
    assert set(Task.objects.values_list("status", flat=True)) == {"completed"}

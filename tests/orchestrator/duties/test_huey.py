"""Huey finds the periodic task of housekeeping, and runs the duties."""

from huey.contrib.djhuey import HUEY

from dalston_queue import tasks
from dalston_queue.broker import Broker
from dalston_queue.models import Duty
from dalston_queue.orchestrator.duties.run import DUTIES
from tests.orchestrator.support import Steps


def test_housekeeping_is_the_one_periodic_task_and_runs_the_duties(broker: Broker, steps: Steps) -> None:
    periodic = [task.__name__ for task in HUEY._registry._periodic_tasks]
    assert [name for name in periodic if "housekeeping" in name] != []
    tasks.housekeeping.call_local()
    assert set(Duty.objects.values_list("name", flat=True)) == {spec.name for spec in DUTIES}

"""An engine may know only when its model is loaded what it can run."""

from typing import Any

from dalston_queue.broker.protocol.messages import TaskMessage
from dalston_queue.broker.protocol.types import EventKind
from engines.sdk import Engine, Task
from tests.engines.workbench import QUEUE, Bench
from tests.support import wait_until


class Able(Engine):
    """Of the manifest's two capabilities it has one."""

    def load(self) -> None:
        self.capabilities = ("small",)

    def run(self, task: Task) -> Any:
        return task.id


def append(bench: Bench, task_id: str, needs: str) -> str:
    message = TaskMessage(
        task_id=task_id,
        job_id=task_id,
        queue=QUEUE,
        task_type=QUEUE,
        attempt=1,
        parameters={},
        required_capabilities=(needs,),
    )
    bench.broker.append([message])
    return task_id


def test_an_engine_claims_what_its_loaded_model_can_do_and_no_more(bench: Bench) -> None:
    engine = Able()
    engine.load()
    bench.start(engine, capabilities=("small", "large"))
    large = append(bench, "task-large", "large")
    small = append(bench, "task-small", "small")
    bench.wait(EventKind.TASK_COMPLETED, small)
    assert bench.events(EventKind.TASK_STARTED, large) == []
    bench.start(capabilities=("large",))
    wait_until(lambda: bench.events(EventKind.TASK_COMPLETED, large), what="an engine with the capability runs it")

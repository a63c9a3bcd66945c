"""What an engine author can write, run with the SDK's own testing helper: no servers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dalston_queue.broker import messages
from dalston_queue.broker.types import Cause
from engines.demo.engine import Demo
from engines.sdk import Cancelled, Done, Engine, Reject, Retry, Task, engine
from engines.sdk.outcomes import Failed
from engines.sdk.settlement import settlement
from engines.sdk.testing import run_task


@engine
def shout(task: Task) -> dict[str, str]:
    """Upper case."""
    task.progress(0.5, "half")
    return {"text": task.parameters["text"].upper()}


@engine
async def slowly(task: Task) -> str:
    await asyncio.sleep(task.parameters["seconds"])
    return "slept"


class Counter(Engine):
    async def load(self) -> None:
        self.lock = asyncio.Lock()  # belongs to the loop that tasks run on
        self.steps = ["load"]

    async def run(self, _task: Task) -> list[str]:
        async with self.lock:
            self.steps.append("run")
        return self.steps

    def close(self) -> None:
        self.steps.append("close")


def test_a_decorated_function_is_an_engine_and_still_a_function() -> None:
    run = run_task(shout, {"text": "hello"})
    assert run.outcome == Done({"text": "HELLO"})
    assert run.progress == [(0.5, "half")]
    assert shout.__doc__ == "Upper case."


def test_an_async_function_is_an_engine_too_and_a_cancel_ends_its_sleep() -> None:
    assert run_task(slowly, {"seconds": 0}).outcome == Done("slept")
    assert run_task(slowly, {"seconds": 60}, cancel_after=0.05).outcome == Cancelled()


def test_a_class_loads_runs_and_closes() -> None:
    counter = Counter()
    assert run_task(counter).outcome == Done(["load", "run", "close"])  # the same list, closed since


def test_an_exception_is_a_failed_outcome_with_its_traceback() -> None:
    outcome = run_task(shout, {}).outcome
    assert isinstance(outcome, Failed)
    assert outcome.type == "KeyError"
    assert "task.parameters" in outcome.traceback


def test_an_exit_in_a_task_is_a_failure_and_does_not_end_the_engine() -> None:
    @engine
    def leave(task: Task) -> None:
        raise SystemExit(3)

    assert isinstance(run_task(leave).outcome, Failed)


def test_artifacts_of_one_run_have_a_folder_of_their_own(tmp_path: Path) -> None:
    @engine
    def write(task: Task) -> str:
        (task.artifacts / "a.txt").write_text("x")
        return str(task.artifacts.relative_to(tmp_path))

    assert run_task(write, artifacts=tmp_path).outcome == Done("job/task/1-0")


def test_the_demo_engine_does_what_it_is_asked() -> None:
    assert run_task(Demo(), {"a": 1}, queue="echo").outcome == Done({"a": 1})
    assert run_task(Demo(), {"seconds": 0.05}, queue="sleep").outcome == Done({"slept": 0.05})
    assert run_task(Demo(), {"seconds": 60}, queue="sleep", cancel_after=0.05).outcome == Cancelled()
    assert run_task(Demo(), {"how": "reject", "message": "no"}, queue="fail").outcome == Reject("no")
    assert run_task(Demo(), {"how": "retry", "after": 2}, queue="fail").outcome == Retry("you asked for it", after=2.0)
    assert isinstance(run_task(Demo(), {}, queue="fail").outcome, Failed)


@pytest.mark.parametrize(
    ("outcome", "cause"),
    [
        (Retry("later", after=3.0), Cause.ERROR),
        (Retry("slow down", rate_limited=True), Cause.RATE_LIMITED),
        (Reject("never"), Cause.REJECTED),
        (Failed("boom", "ValueError", "trace"), Cause.ERROR),
        (Failed("CUDA out of memory", "OutOfMemoryError", "trace", gpu_oom=True), Cause.GPU_OOM),
        (Done(object()), Cause.REJECTED),
        (Done("x" * 300_000), Cause.REJECTED),
    ],
)
def test_each_outcome_settles_with_its_cause(outcome: Any, cause: Cause) -> None:
    settled = settlement(outcome)
    assert isinstance(settled, messages.Failed)
    assert settled.error.cause is cause


def test_a_torch_out_of_memory_error_is_known_by_its_name() -> None:
    class OutOfMemoryError(RuntimeError):
        pass

    @engine
    def greedy(task: Task) -> None:
        raise OutOfMemoryError("tried to allocate 20 GiB")

    outcome = run_task(greedy).outcome
    assert isinstance(outcome, Failed)
    assert outcome.gpu_oom

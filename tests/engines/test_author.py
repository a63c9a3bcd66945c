"""What an engine author can write, run with the SDK's own testing helper: no servers."""

import asyncio
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dalston_queue.broker.protocol import messages
from dalston_queue.broker.protocol.types import Cause
from engines.demo.engine import Demo
from engines.sdk import Cancelled, Done, Engine, Reject, Retry, Task, TaskError, engine
from engines.sdk.outcomes import Failed
from engines.sdk.process.settlement import settlement
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


@pytest.mark.parametrize("retriable", [True, False])
def test_an_error_carries_whether_another_attempt_may_succeed(retriable: bool) -> None:
    @engine
    def fails(_task: Task) -> None:
        raise TaskError("the licence has ended", retriable=retriable)

    outcome = run_task(fails).outcome
    assert isinstance(outcome, Failed)
    sent = settlement(outcome)
    assert isinstance(sent, messages.Failed)
    assert (sent.error.message, sent.error.type) == ("the licence has ended", "TaskError")
    assert (sent.error.cause, sent.error.retriable) == (Cause.ERROR, retriable)


def test_any_other_error_leaves_that_to_its_cause() -> None:
    @engine
    def fails(_task: Task) -> None:
        raise ValueError("no")

    outcome = run_task(fails).outcome
    assert isinstance(outcome, Failed)
    assert outcome.retriable is None


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


def test_one_run_has_a_folder_of_its_own_that_goes_with_it() -> None:
    @engine
    def write(task: Task) -> str:
        (task.folder / "a.txt").write_text("x")
        return str(task.folder)

    outcome = run_task(write).outcome
    assert isinstance(outcome, Done)
    folder = Path(outcome.result)
    assert folder.parts[-3:] == ("job", "task", "1-0")
    assert not folder.exists()


def test_the_demo_engine_does_what_it_is_asked() -> None:
    assert run_task(Demo(), {"a": 1}, queue="echo").outcome == Done({"a": 1})
    assert run_task(Demo(), {"seconds": 0.05}, queue="sleep").outcome == Done({"slept": 0.05})
    assert run_task(Demo(), {"seconds": 60}, queue="sleep", cancel_after=0.05).outcome == Cancelled()
    assert run_task(Demo(), {"how": "reject", "message": "no"}, queue="fail").outcome == Reject("no")
    assert run_task(Demo(), {"how": "retry", "after": 2}, queue="fail").outcome == Retry("you asked for it", after=2.0)
    assert isinstance(run_task(Demo(), {}, queue="fail").outcome, Failed)
    assert run_task(Demo(), {}, queue="dummy").outcome == Done({"ok": True, "task_type": "dummy"})


def test_the_demo_engine_runs_what_the_task_type_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome(task_type: str) -> object:
        return run_task(Demo(), {"a": 1}, queue="default", task_type=task_type).outcome

    assert outcome("echo") == Done({"a": 1})
    assert isinstance(outcome("report"), Reject), "without a fallback a typing error shows"
    monkeypatch.setenv("DALSTON_DEMO_FALLBACK", "1")
    assert outcome("report") == Done({"handler": "default", "task_type": "report", "parameters": {"a": 1}})
    assert outcome("echo") == Done({"a": 1})


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


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Quitter:
    def __str__(self) -> str:
        raise SystemExit(0)

    def __float__(self) -> float:
        raise SystemExit(0)


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (Reject(ValueError("bad audio")), "bad audio"),  # type: ignore[arg-type]
        (Reject(Mute()), "a Mute that can't be shown as text"),  # type: ignore[arg-type]
        (Reject(Quitter()), "a Quitter that can't be shown as text"),  # type: ignore[arg-type]
        (Retry(None, after="soon"), "None"),  # type: ignore[arg-type]
        (Retry("later", after=Quitter()), "later"),  # type: ignore[arg-type]
        (Retry("later", after=float("nan")), "later"),
        (Failed("no file \udc80.wav", "Bad\udc80", "File \udc80.wav"), r"no file \udc80.wav"),
    ],
)
def test_any_value_for_an_error_can_be_sent(outcome: Any, message: str) -> None:
    settled = settlement(outcome)
    assert isinstance(settled, messages.Failed)
    messages.encode_outcome(settled)
    assert (settled.error.message, settled.error.retry_after_s) == (message, None)


@pytest.mark.parametrize(
    ("after", "seconds"),
    [(3, 3.0), ("2.5", 2.5), (-1, 0.0), (1e300, 365 * 86400.0), (float("inf"), None), (None, None)],
)
def test_the_delay_of_a_retry_is_a_span_of_time_or_left_to_the_policy(after: Any, seconds: float | None) -> None:
    settled = settlement(Retry("later", after=after))
    assert isinstance(settled, messages.Failed)
    assert settled.error.retry_after_s == seconds


def test_an_exception_without_words_is_a_failure_all_the_same() -> None:
    @engine
    def mute(task: Task) -> None:
        raise Mute

    assert isinstance(run_task(mute).outcome, Failed)


@pytest.mark.parametrize("levels", [64, 65, 500, 100_000])
def test_a_result_that_is_nested_too_deep_is_refused(levels: int) -> None:
    nested: Any = []
    for _ in range(levels - 1):
        nested = [nested]
    settled = settlement(Done(nested))
    if levels <= 64:
        assert isinstance(settled, messages.Completed)
    else:
        assert isinstance(settled, messages.Failed)
        assert settled.error.cause is Cause.REJECTED
        assert "nested" in settled.error.message or "recursion" in settled.error.message.lower()


def test_a_dataclass_is_a_level_of_nesting_too() -> None:
    @dataclass
    class Node:
        inner: Any = None

    nested = Node()
    for _ in range(64):
        nested = Node(nested)
    assert isinstance(settlement(Done(nested)), messages.Failed)


def test_a_long_error_keeps_both_ends_and_says_how_much_is_missing() -> None:
    settled = settlement(Failed("first " + "ä" * 10_000 + " last", "E", "top " + "x" * 100_000 + " bottom"))
    assert isinstance(settled, messages.Failed)
    message, trace = settled.error.message, settled.error.traceback
    assert len(message.encode()) <= 8 * 1024
    assert len(trace.encode()) <= 32 * 1024
    assert (message[:6], message[-5:], trace[:4], trace[-7:]) == ("first ", " last", "top ", " bottom")
    cut = int(trace.partition("[… ")[2].partition(" bytes cut")[0])
    assert cut + len(trace.replace(f"\n[… {cut} bytes cut …]\n", "")) == 100_011


@pytest.mark.parametrize(
    ("fraction", "kept"),
    [(Decimal("0.5"), 0.5), (2, 1.0), (float("nan"), 0.0), (float("-inf"), 0.0), ("half", 0.25), (None, 0.25)],
)
def test_progress_accepts_any_types(fraction: Any, kept: float) -> None:
    @engine
    def report(task: Task) -> None:
        task.progress(0.25)
        task.progress(fraction, ValueError("at \udc80.wav"))  # type: ignore[arg-type]

    last = run_task(report).progress[-1]
    assert (last, type(last[0])) == ((kept, r"at \udc80.wav"), float)

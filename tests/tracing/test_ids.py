"""Ids of spans: the same in every process, and a traceparent that other programs read."""

from uuid import UUID

import pytest

from dalston_queue.tracing import ids
from engines.sdk import Done, Engine, Task
from engines.sdk.testing import run_task

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
JOB = "019a2b6e-0000-7000-8000-000000000000"


def test_a_span_has_the_same_id_for_a_uuid_and_for_its_text() -> None:
    assert ids.submit(UUID(JOB)) == ids.submit(JOB)
    assert 0 < ids.submit(JOB) < 2**64


def test_spans_of_different_things_have_different_ids() -> None:
    found = [
        ids.submit(JOB), ids.wait(JOB, 1, "e"), ids.wait(JOB, 2, "e"), ids.wait(JOB, 1, "f"), ids.run(JOB, 1, "e"),
        ids.settle(JOB, 1, "e"),
        ids.apply(JOB, 1, "e", "retry"), ids.apply(JOB, 1, "e", "recover"), ids.webhook(JOB, 1),
    ]  # fmt: skip
    assert len(set(found)) == len(found)


def test_a_traceparent_is_read_again() -> None:
    assert ids.traceparent(TRACE, 0xAB) == f"00-{TRACE}-00000000000000ab-01"
    assert ids.parse(ids.traceparent(TRACE, 0xAB)) == (TRACE, 0xAB)


@pytest.mark.parametrize("trace", ["", "x", TRACE.upper(), "0" * 32, TRACE + "\n"])
def test_there_is_none_of_a_trace_id_that_w3c_does_not_allow(trace: str) -> None:
    assert ids.traceparent(trace, 1) == ""


@pytest.mark.parametrize(
    "header",
    [
        "",
        TRACE,
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-{TRACE}-00f067aa0ba902b7-01-more",
        f"00-{TRACE}-00f067aa0ba902b7-01\n",
        f"ff-{TRACE}-00f067aa0ba902b7-01",
    ],
)
def test_what_is_no_traceparent_starts_a_trace_of_its_own(header: str) -> None:
    assert ids.parse(header) is None


def test_a_task_has_the_header_for_what_it_calls() -> None:
    class Calls(Engine):
        def run(self, task: Task) -> str:
            task.trace_id, task.engine_id = TRACE, "node.calls.0.boot"
            return task.traceparent

    header = run_task(Calls()).outcome
    assert str(header) == str(Done(ids.traceparent(TRACE, ids.run("task", 1, "node.calls.0.boot"))))

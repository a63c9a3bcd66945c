"""The traceparent header of a stranger: what is read, what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalston_queue.tracing.context import TraceParent, parent_of_job, read

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("03", True), ("02", False)])
def test_a_traceparent_is_read_and_written(flags: str, sampled: bool) -> None:
    found = read(f"00-{TRACE}-{SPAN}-{flags}")
    assert found == TraceParent(TRACE, SPAN, sampled)
    assert str(found) == f"00-{TRACE}-{SPAN}-{int(sampled):02x}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",  # version 00 has no more fields
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f" 00-{TRACE}-{SPAN}-01",
    ],
)
def test_what_is_no_traceparent_is_none(text: str) -> None:
    assert read(text) is None


def test_a_later_version_is_read_as_far_as_this_one_goes() -> None:
    assert read(f"01-{TRACE}-{SPAN}-01-more") == TraceParent(TRACE, SPAN, sampled=True)


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    assert read(text) is None or len(str(read(text))) == 55


def test_the_tasks_of_a_job_without_a_span_share_a_parent() -> None:
    job = "01a1f0e4-252c-7000-aa1e-974393828801"
    assert parent_of_job(f"00-{TRACE}-{SPAN}-01", TRACE, job) == f"00-{TRACE}-{SPAN}-01"
    assert parent_of_job("", TRACE, job) == f"00-{TRACE}-aa1e974393828801-01"
    assert parent_of_job("", "not a trace id", job) == ""

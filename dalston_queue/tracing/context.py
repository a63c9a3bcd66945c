"""The W3C trace context: `00-<trace id>-<span id>-<flags>`, read from strangers and passed on."""

import re
from contextvars import ContextVar
from typing import NamedTuple

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
_TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")
_SAMPLED = 1

incoming: ContextVar[str] = ContextVar("incoming", default="")
"""The traceparent of the request that this thread serves; empty if it has none."""


class TraceParent(NamedTuple):
    trace_id: str
    span_id: str
    sampled: bool

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}"


def read(text: str) -> TraceParent | None:
    """None for what is no traceparent. One of a later version is read as far as this one goes."""
    found = _TRACEPARENT.match(text)
    ends = found and (found.end() == len(text) or (not text.startswith("00") and text[found.end()] == "-"))
    if not found or not ends:
        return None
    return TraceParent(found[1], found[2], bool(int(found[3], 16) & _SAMPLED))


def parent_of_job(traceparent: str, trace_id: str, job_id: str) -> str:
    """What the spans of a job's tasks belong to. A job whose submitter recorded no span has none of its own: they
    share a parent that is made of its id."""
    if traceparent or not _TRACE_ID.fullmatch(trace_id):
        return traceparent
    return str(TraceParent(trace_id, job_id.replace("-", "")[-16:], sampled=True))

"""The span of a web process's caller, for the time of its request: what the request submits is below that span."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_caller: ContextVar[tuple[str, int] | None] = ContextVar("caller", default=None)


@contextmanager
def calling(caller: tuple[str, int] | None) -> Iterator[None]:
    """`caller`: its trace id and span id, if it sent them."""
    token = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(token)


def span_in(trace_id: str) -> int:
    """The caller's span if it is of this trace, else 0."""
    caller = _caller.get()
    return caller[1] if caller and caller[0] == trace_id else 0

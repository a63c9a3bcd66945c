"""Spans of OpenTelemetry, if the standard OTEL_* variables ask for them and the extra `otel` is installed.

Nothing of OpenTelemetry is imported otherwise. A parent is always named by its traceparent: the processes of one job
share no memory. Attributes are ids, names and states; never parameters, results or messages.
"""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import cache
from typing import Any

from dalston_queue.tracing.context import TraceParent, read

log = logging.getLogger(__name__)

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_service = "dalston"
Attributes = Mapping[str, object]
"""Without the prefix `dalston.` that they get."""
_new_trace_id: ContextVar[str] = ContextVar("new_trace_id", default="")


def name_process(service: str) -> None:
    """The `service.name` of this process's spans, unless OTEL_SERVICE_NAME names another. To be called at its start."""
    global _service  # noqa: PLW0603 (a process has one name)
    _service = service


def is_on() -> bool:
    return _tracer() is not None


class Span:
    """A span that is open, or what stands for one when there are none."""

    def __init__(self, traceparent: str, opened: Any = None) -> None:
        self.traceparent = traceparent
        """Of this span, for its children; its parent's when spans are off."""
        self._opened = opened

    def failed(self, why: str) -> None:
        """`why` is a kind of error, never its message."""
        if self._opened is not None:
            _set_failed(self._opened, why)

    def add(self, name: str, value: object) -> None:
        if self._opened is not None:
            self._opened.set_attributes(_named({name: value}))


@contextmanager
def span(name: str, parent: str, attributes: Attributes, *, trace_id: str = "") -> Iterator[Span]:
    """The current span of the block, so that spans of libraries become its children. Without a parent it is the root of
    the trace with this id."""
    tracer = _tracer()
    if tracer is None:
        yield Span(parent)
        return
    from opentelemetry import trace

    token = _new_trace_id.set(trace_id)
    try:
        opened = tracer.start_span(name, context=_context(parent), attributes=_named(attributes))
    finally:
        _new_trace_id.reset(token)
    with trace.use_span(opened, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        yield Span(_traceparent(opened), opened)


def record(
    name: str,
    parent: str,
    start: datetime | float,
    end: datetime | float,
    attributes: Attributes,
    *,
    failed: str | None = None,
) -> None:
    """A span that is over, with its times."""
    tracer = _tracer()
    if tracer is None:
        return
    began, ended = _ns(start), _ns(end)
    done = tracer.start_span(name, context=_context(parent), attributes=_named(attributes), start_time=began)
    _set_failed(done, failed)
    done.end(max(began, ended))  # two clocks may differ


def flush(timeout_s: float = 2.0) -> None:
    """Sends what is recorded, before an exit that runs no handlers."""
    if _tracer.cache_info().currsize and is_on():
        from opentelemetry import trace

        provider: Any = trace.get_tracer_provider()
        provider.force_flush(int(timeout_s * 1000))


def _asked_for() -> bool:
    env = os.environ
    if env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = env.get("OTEL_TRACES_EXPORTER", "").strip()
    return exporter == "otlp" or (not exporter and any(env.get(name) for name in _ENDPOINTS))


@cache
def _tracer() -> Any:
    """None: no spans. Made at the first use, so that a process which forks has its own exporting thread."""
    if not _asked_for():
        return None
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
    except ImportError as error:
        log.warning("OTEL_* variables ask for traces, and the extra `otel` is not installed: %s", error)
        return None

    class Ids(RandomIdGenerator):
        """The root span of a job gets the trace id that the job has in logs and answers."""

        def generate_trace_id(self) -> int:
            wanted = _new_trace_id.get()
            return int(wanted, 16) if wanted else super().generate_trace_id()

    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: _service}
    provider = TracerProvider(resource=Resource.create(named), id_generator=Ids())
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)  # for what an engine's author or a library records
    return provider.get_tracer("dalston")


def _context(parent: str) -> Any:
    from opentelemetry import trace
    from opentelemetry.context import Context

    found = read(parent)
    if found is None:
        return Context()  # not the current span's: that may be of another job
    flags = trace.TraceFlags(int(found.sampled))
    remote = trace.SpanContext(int(found.trace_id, 16), int(found.span_id, 16), is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(trace.NonRecordingSpan(remote), Context())


def _traceparent(opened: Any) -> str:
    made = opened.get_span_context()
    return str(TraceParent(f"{made.trace_id:032x}", f"{made.span_id:016x}", bool(made.trace_flags & 1)))


def _set_failed(opened: Any, why: str | None) -> None:
    if why is not None:
        from opentelemetry.trace import Status, StatusCode

        opened.set_status(Status(StatusCode.ERROR, why))


def _named(attributes: Attributes) -> dict[str, Any]:
    return {f"dalston.{name}": value if isinstance(value, int) else str(value) for name, value in attributes.items()}


def _ns(moment: datetime | float) -> int:
    return int((moment.timestamp() if isinstance(moment, datetime) else moment or time.time()) * 1e9)

"""Spans to an OpenTelemetry collector, over HTTP. Without OTEL_* nothing is imported, started or recorded.

A span is recorded when it has ended. Sending is a thread of the SDK with a bounded queue: a collector that is away
delays nothing, and its spans are dropped.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from dalston_queue.tracing.ids import TRACE_ID

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
    from opentelemetry.sdk.trace.sampling import Sampler

log = logging.getLogger("tracing")

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"
CLOSE_TIMEOUT_S = 2.0

_provider: TracerProvider | None = None
_next: ContextVar[tuple[int, int] | None] = ContextVar("next", default=None)
"""Trace id and span id of the span that is being recorded."""


def problem_of(env: Mapping[str, str]) -> str | None:
    """None: OTEL_* asks for spans that can be sent. "": it asks for none. Else why they can't be sent."""
    exporter = env.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or exporter == "none":
        return ""
    if not exporter and not any(env.get(name) for name in ENDPOINTS):
        return ""
    if exporter not in ("", "otlp"):
        return f"OTEL_TRACES_EXPORTER is {exporter!r}, and only otlp and none are known here"
    protocol = next((env[name] for name in PROTOCOLS if env.get(name)), PROTOCOL)
    return None if protocol == PROTOCOL else f"the OTLP protocol is {protocol!r}, and only {PROTOCOL} is known here"


def configure(process: str) -> None:
    """Start sending spans of this process, if OTEL_* asks for it. What is wrong with OTEL_* is one line of the log: a
    queue must not stand still for its traces."""
    global _provider  # noqa: PLW0603 - of the process, as the SDK's own
    problem = problem_of(os.environ)
    if _provider is not None or problem == "":
        return
    if problem is None:
        try:
            _provider = _make(process)
        except ImportError:
            problem = "the extra is not installed: pip install 'dalston[otel]'"
        except Exception as error:  # noqa: BLE001 - a value of OTEL_* that the SDK refuses
            problem = f"{type(error).__name__}: {error}"
    if problem:
        log.warning("traces are not sent: %s", problem)


def enabled() -> bool:
    return _provider is not None


def record(
    name: str,
    trace_id: str,
    span: int,
    parent: int,
    times_ns: tuple[int, int],
    *,
    kind: str = "internal",
    failed: str = "",
    attributes: Mapping[str, str | int] | None = None,
) -> None:
    """A span that has ended. `parent` 0: it has none. `failed`: in a word, why. Nothing if spans are not sent."""
    if _provider is None or not TRACE_ID.fullmatch(trace_id):
        return
    from opentelemetry.trace import SpanKind, Status, StatusCode

    token = _next.set((int(trace_id, 16), span))
    try:
        made = _provider.get_tracer("dalston").start_span(
            name,
            _context(trace_id, parent),
            SpanKind[kind.upper()],
            {f"dalston.{key}": value for key, value in (attributes or {}).items() if value != ""},
            start_time=times_ns[0],
        )
    finally:
        _next.reset(token)
    if failed:
        made.set_status(Status(StatusCode.ERROR))
        made.set_attribute("error.type", failed)
    made.end(max(times_ns))


@contextmanager
def current(trace_id: str, span: int) -> Iterator[None]:
    """Spans that this thread or coroutine starts meanwhile by OpenTelemetry's own API are below this one."""
    if _provider is None or not TRACE_ID.fullmatch(trace_id):
        yield
        return
    from opentelemetry.context import attach, detach

    token = attach(_context(trace_id, span))
    try:
        yield
    finally:
        detach(token)


def offer() -> None:
    """Let the author of an engine start spans by OpenTelemetry's own API, unless they have set up a provider."""
    if _provider is not None:
        from opentelemetry import trace

        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            trace.set_tracer_provider(_provider)


def close() -> None:
    """Send what was recorded, within CLOSE_TIMEOUT_S."""
    global _provider  # noqa: PLW0603
    if _provider is not None:
        closing = threading.Thread(target=_provider.shutdown, name="traces", daemon=True)
        _provider = None
        closing.start()
        closing.join(CLOSE_TIMEOUT_S)


def _make(process: str) -> TracerProvider:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(
        sampler=_sampler(), resource=_resource(process), id_generator=_ids(), shutdown_on_exit=False
    )
    provider.add_span_processor(BatchSpanProcessor(_exporter()))
    atexit.register(close)
    return provider


def _exporter() -> SpanExporter:
    """The SDK's own, which logs each failure; an outage of the collector is one line here, and one when it ends."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExportResult

    for name in ("exporter.otlp", "sdk._shared_internal"):
        logging.getLogger(f"opentelemetry.{name}").setLevel(logging.CRITICAL)

    class Exporter(OTLPSpanExporter):
        delivered = True

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            result = super().export(spans)
            if self.delivered != (result is SpanExportResult.SUCCESS):
                self.delivered = not self.delivered
                if self.delivered:
                    log.warning("the collector of traces answers again")
                else:
                    log.warning("the collector of traces does not take them: they are dropped meanwhile")
            return result

    return Exporter()


def _sampler() -> Sampler:
    """That of OTEL_TRACES_SAMPLER, asked for each span by its trace id: so all processes decide alike. Whether the
    parent was sampled is not asked, as it is known to no process but the first."""
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, TraceIdRatioBased

    name = os.environ.get("OTEL_TRACES_SAMPLER", "").strip().lower().removeprefix("parentbased_")
    if name == "traceidratio":
        return TraceIdRatioBased(float(os.environ.get("OTEL_TRACES_SAMPLER_ARG") or 1))
    return ALWAYS_OFF if name == "always_off" else ALWAYS_ON


def _resource(process: str) -> Any:
    from opentelemetry.sdk.resources import Resource

    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return Resource.create({"dalston.process": process, **({} if named else {"service.name": f"dalston-{process}"})})


def _ids() -> Any:
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class Ids(RandomIdGenerator):
        """Our own ids; random ones for the spans of others."""

        def generate_span_id(self) -> int:
            found = _next.get()
            return found[1] if found else super().generate_span_id()

        def generate_trace_id(self) -> int:
            found = _next.get()
            return found[0] if found else super().generate_trace_id()

    return Ids()


def _context(trace_id: str, span: int) -> Any:
    """With this span as the parent; 0 makes a root."""
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    parent = SpanContext(int(trace_id, 16), span, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return set_span_in_context(NonRecordingSpan(parent))

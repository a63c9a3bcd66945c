"""An OpenTelemetry collector for tests: an HTTP server that takes OTLP, and the spans that it got."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.api.webhooks.receiver import Receiver


@dataclass(frozen=True)
class Span:
    process: str
    name: str
    id: str
    parent: str  # "" of a root
    trace: str
    seconds: float
    failed: bool
    about: dict[str, str | int] = field(compare=False)

    def __str__(self) -> str:
        return f"{self.process} {self.name}"


@dataclass
class Collector:
    receiver: Receiver

    def spans_of(self, trace: str) -> list[Span]:
        return [span for got in list(self.receiver.got) for span in _read(got.body) if span.trace == trace]


def below(spans: Sequence[Span]) -> dict[str, list[str]]:
    """By process and name of a span, those of all spans below such a span."""
    names = {span.id: str(span) for span in spans}
    found: defaultdict[str, list[str]] = defaultdict(list)
    for span in sorted(spans, key=str):
        found[names.get(span.parent, span.parent)].append(str(span))
    return dict(found)


def _read(body: bytes) -> list[Span]:
    request = ExportTraceServiceRequest.FromString(body)
    found = []
    for resource in request.resource_spans:
        process = {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                about = {each.key: each.value.string_value or int(each.value.int_value) for each in span.attributes}
                found.append(
                    Span(
                        process=process.removeprefix("dalston-"),
                        name=span.name,
                        id=span.span_id.hex(),
                        parent=span.parent_span_id.hex(),
                        trace=span.trace_id.hex(),
                        seconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
                        failed=span.status.code == 2,
                        about=about,
                    )
                )
    return found

"""Traces: every process passes the W3C trace context on, and records spans where OTEL_* variables ask for them.

context   traceparent: read, made, and that of the request which this thread serves; no dependency
spans     spans of OpenTelemetry; without OTEL_* variables they cost nothing, and nothing is imported

Leaves: engines, web processes and orchestrators share them. docs/traces.md has the tree.
"""

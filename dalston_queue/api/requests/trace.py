"""Trace ids: 32 hex digits as in W3C Trace Context, carried by a request, its log lines, its job and the messages."""

from __future__ import annotations

import secrets

from django.http import HttpRequest


def new_trace_id() -> str:
    return secrets.token_hex(16)


def trace_id_of(request: HttpRequest) -> str:
    given: str | None = getattr(request, "trace_id", None)
    return given or new_trace_id()

"""The problem document in the OpenAPI page. `problems.respond` writes it."""

from __future__ import annotations

from typing import Any

from ninja import Schema

from dalston_queue.api.errors.problems import Code


class FieldError(Schema):
    field: str
    message: str
    kind: str


class ProblemOut(Schema):
    type: str
    title: str
    status: int
    detail: str
    code: Code
    instance: str
    trace_id: str | None
    errors: list[FieldError] | None = None


def answers(success: dict[int, Any], *refusals: int) -> dict[int, Any]:
    """The documented answers of a route: its own, and problem documents."""
    return {**success, **dict.fromkeys([401, 403, *refusals, 422, 429, 503], ProblemOut)}

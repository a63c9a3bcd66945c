"""Refuses unknown query parameters: a misspelt filter would otherwise match everything. And repeated ones: no route
takes a list, so all but the last would be ignored.

Ninja has no public way to a route's names. It keeps the operation in `_ninja_operation`, which its own `decorate_view`
reads; `__ninja_param_source__` and `__ninja_flatten_map__` of the operation's models are what it reads requests and
writes the schema by. A version without one of them fails when the routes are made, before any request.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, QueryDict
from ninja.errors import ValidationError
from ninja.operation import Operation


def strict_query(view: Callable[..., Any]) -> Callable[..., Any]:
    """For `api.add_decorator(…, mode="operation")`: runs after the auth and the validation of known parameters."""
    known = _query_of(view._ninja_operation)  # type: ignore[attr-defined]  # noqa: SLF001 - see above

    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **values: Any) -> Any:
        if request.META["QUERY_STRING"] and (wrong := _wrong(request.GET, known)):
            raise ValidationError(wrong)
        return view(request, *args, **values)

    return checked


def _wrong(query: QueryDict, known: frozenset[str]) -> list[dict[str, Any]]:
    has = f"it has {', '.join(sorted(known))}" if known else "it has none"
    unknown = [name for name in query if name not in known]
    repeated = [name for name, values in query.lists() if name in known and len(values) > 1]
    return [
        *(_error("extra_forbidden", name, f"This route has no such query parameter; {has}") for name in unknown),
        *(_error("repeated", name, "Send it once: this route takes one value") for name in repeated),
    ]


def _error(kind: str, name: str, message: str) -> dict[str, Any]:
    return {"type": kind, "loc": ("query", name), "msg": message}


def _query_of(operation: Operation) -> frozenset[str]:
    models = [model for model in operation.models if model.__ninja_param_source__ == "query"]
    return frozenset(name for model in models for name in model.__ninja_flatten_map__)

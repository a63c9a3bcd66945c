"""Refuses a query parameter that the route does not have: a misspelt filter would otherwise match everything.

Ninja has no public way to a route's names. It keeps the operation in `_ninja_operation`, which its own `decorate_view`
reads; `__ninja_param_source__` and `__ninja_flatten_map__` of the operation's models are what it reads requests and
writes the schema by. A version without one of them fails when the routes are made, before any request.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest
from ninja.errors import ValidationError
from ninja.operation import Operation


def strict_query(view: Callable[..., Any]) -> Callable[..., Any]:
    """For `api.add_decorator(…, mode="operation")`: it runs after the auth, and after what is known was read."""
    known = _query_of(view._ninja_operation)  # type: ignore[attr-defined]  # noqa: SLF001 - see above

    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **values: Any) -> Any:
        if request.META["QUERY_STRING"] and (unknown := [name for name in request.GET if name not in known]):
            has = f"it has {', '.join(sorted(known))}" if known else "it has none"
            message = f"This route has no such query parameter; {has}"
            raise ValidationError(
                [{"type": "extra_forbidden", "loc": ("query", name), "msg": message} for name in unknown]
            )
        return view(request, *args, **values)

    return checked


def _query_of(operation: Operation) -> frozenset[str]:
    models = [model for model in operation.models if model.__ninja_param_source__ == "query"]
    return frozenset(name for model in models for name in model.__ninja_flatten_map__)

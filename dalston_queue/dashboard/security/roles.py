"""Roles on the pages: decorators of pages and of operator actions, and the role for templates."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from dalston_queue.accounts.roles import may_administer, may_operate, role_of

P = ParamSpec("P")
Response = TypeVar("Response", bound=HttpResponseBase)
View = Callable[Concatenate[HttpRequest, P], HttpResponse]


def page_view(view: Callable[Concatenate[HttpRequest, P], Response]) -> Callable[..., Any]:
    """A page: GET only, for every role after a login, never cached."""
    return require_safe(never_cache(login_required(view)))


def operator_required(view: View[P]) -> View[P]:
    """Logged in, and operator or admin; a viewer gets 403, without a login the login page."""

    @login_required
    @wraps(view)
    def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not may_operate(request.user):
            raise PermissionDenied
        return view(request, *args, **kwargs)

    return guarded


def operator_action(view: View[P]) -> Callable[..., Any]:
    """What a button does: POST only, operators only."""
    return require_POST(operator_required(view))


def role_context(request: HttpRequest) -> dict[str, object]:
    """For templates: a button that the user may not press is not shown."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {"may_operate": False, "may_administer": False}
    return {"role": role_of(user), "may_operate": may_operate(user), "may_administer": may_administer(user)}

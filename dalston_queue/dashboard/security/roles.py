"""Roles on the pages: views that need an operator, and the role for templates."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from dalston_queue.accounts.roles import may_administer, may_operate, role_of

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponse]


def operator_required(view: View[P]) -> View[P]:
    """Logged in, and operator or admin; a viewer gets 403, without a login the login page."""

    @login_required
    @wraps(view)
    def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not may_operate(request.user):
            raise PermissionDenied
        return view(request, *args, **kwargs)

    return guarded


def role_context(request: HttpRequest) -> dict[str, object]:
    """For templates: a button that the user may not press is not shown."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {"may_operate": False, "may_administer": False}
    return {"role": role_of(user), "may_operate": may_operate(user), "may_administer": may_administer(user)}

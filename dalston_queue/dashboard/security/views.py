"""The throttled login form and change of password (the admin uses both), and /favicon.ico."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import structlog
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.utils import timezone
from django.views.decorators.http import require_safe

from dalston_queue.accounts import login_throttle

log = structlog.get_logger(__name__)


class ThrottledLogin(LoginView):
    template_name = "dashboard/login.html"
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        wait = login_throttle.count_attempt(self._username(), self._address(), timezone.now())
        if wait is None:
            return super().post(request, *args, **kwargs)
        log.warning("login.throttled", address=self._address())
        seconds = math.ceil(wait.total_seconds())
        # An unbound form: a bound one would check the password.
        form = AuthenticationForm(request, initial={"username": self._username()})
        context = self.get_context_data(form=form, wait=words(wait), again_at=timezone.now() + wait)
        return self.render_to_response(context, status=429, headers={"Retry-After": str(seconds)})

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        login_throttle.clear_attempts(self._username(), self._address())
        return super().form_valid(form)

    def _username(self) -> str:
        return self.request.POST.get("username", "")[:200]

    def _address(self) -> str:
        return address_of(self.request)


def address_of(request: HttpRequest) -> str:
    """Of the client, also behind a proxy: uvicorn sets it from the proxy's header (--forwarded-allow-ips)."""
    return str(request.META.get("REMOTE_ADDR", ""))


def words(wait: timedelta) -> str:
    seconds = math.ceil(wait.total_seconds())
    return f"{seconds} s" if seconds < 90 else f"{math.ceil(seconds / 60)} min"


def refused_form(request: HttpRequest, reason: str = "") -> HttpResponse:
    """CSRF_FAILURE_VIEW: a form that is too old, or that comes from another address than the proxy passes."""
    other_address = reason.startswith(("Origin checking failed", "Referer checking failed - https"))
    text = render_to_string("403_csrf.html", {"other_address": other_address, "reason": reason})
    return HttpResponse(text, status=403)


@require_safe
def favicon(request: HttpRequest) -> HttpResponse:
    """For pages that name no icon of their own: the admin, and bare API answers."""
    return redirect(static("dalston/icon.svg"))

"""The throttled login form (the admin uses it, too), logout, the refused form, and /favicon.ico."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.utils import timezone
from django.views.decorators.http import require_safe

from dalston_queue.accounts import login_throttle
from dalston_queue.accounts.roles import person
from dalston_queue.audit.record import audited

log = structlog.get_logger(__name__)
BY_PROVIDER = "by_provider"
"""In the session of who signed in by the provider."""


class ThrottledLogin(LoginView):
    template_name = "dashboard/login.html"
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        provider = settings.DALSTON_OIDC_LABEL if settings.DALSTON_OIDC_ISSUER else ""
        return super().get_context_data(
            provider=provider,
            by_password=settings.DALSTON_LOCAL_LOGIN,
            signed_out=provider and "signed_out" in self.request.GET,
            **kwargs,
        )

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not settings.DALSTON_LOCAL_LOGIN:
            raise PermissionDenied
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
        answer = super().form_valid(form)
        with audited("login", f"user {form.get_user().get_username()}", **person(self.request)) as row:
            row.after = {"by": "password"}
        return answer

    def _username(self) -> str:
        return self.request.POST.get("username", "")[:200]

    def _address(self) -> str:
        return address_of(self.request)


class Logout(LogoutView):
    def get_success_url(self) -> str:
        """The provider's session is not ours to end with this one: the login page has a link to that."""
        return f"{super().get_success_url()}?signed_out" if self._by_provider else super().get_success_url()

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        self._by_provider = bool(request.session.get(BY_PROVIDER))
        return super().post(request, *args, **kwargs)


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

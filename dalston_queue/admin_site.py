"""The admin site: opened by role, with the dashboard's login and password page, which are throttled.

Not inside dalston_queue/admin: importing that package registers pages with the site, which must exist first.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib.admin import AdminSite
from django.contrib.admin.apps import AdminConfig
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, resolve_url
from django.urls import path, reverse


class DalstonAdminSite(AdminSite):
    site_title = site_header = "Dalston"

    def has_permission(self, request: HttpRequest) -> bool:
        # Not at the top: this module is loaded before the models, by the configuration below.
        from dalston_queue.accounts.roles import may_operate

        return may_operate(request.user)

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:  # noqa: ARG002
        """Redirects to the dashboard's login. A user who is logged in and has no role gets 403: a login would loop."""
        if request.user.is_authenticated and not self.has_permission(request):
            raise PermissionDenied
        wanted = request.GET.get("next") or reverse("admin:index")
        return redirect(f"{resolve_url('dashboard:login')}?{urlencode({'next': wanted})}")

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:  # noqa: ARG002
        """Redirects to the dashboard's page, which counts each try and puts a change on record."""
        return redirect("dashboard:password")

    def get_urls(self) -> list[Any]:
        """Without the redirect to an object's own page: no object has one here, and an invented id was a 500."""
        return [path("r/<path:_>", _no_such_page), *super().get_urls()]


def _no_such_page(_request: HttpRequest, _: str) -> HttpResponse:
    raise Http404


class DalstonAdminConfig(AdminConfig):
    """Django's admin with our site in it. Not in apps.py: Django takes an app's only configuration from there."""

    default_site = "dalston_queue.admin_site.DalstonAdminSite"

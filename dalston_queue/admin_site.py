"""The admin site: opened by role, entered through the dashboard's own login, which is the one that is throttled."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, resolve_url
from django.urls import reverse

from dalston_queue.accounts.roles import may_operate


class DalstonAdminSite(AdminSite):
    site_title = site_header = "Dalston"

    def has_permission(self, request: HttpRequest) -> bool:
        return may_operate(request.user)

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:  # noqa: ARG002
        """No second form. Somebody who is logged in and comes here may not enter: another login page would loop."""
        if request.user.is_authenticated and not self.has_permission(request):
            raise PermissionDenied
        wanted = request.GET.get("next") or reverse("admin:index")
        return redirect(f"{resolve_url('dashboard:login')}?{urlencode({'next': wanted})}")

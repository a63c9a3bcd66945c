"""The password page: every user changes their own password. The change is on record and ends their other sessions."""

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.models import User
from django.contrib.auth.views import PasswordChangeView
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse_lazy
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from dalston_queue.accounts import login_throttle
from dalston_queue.accounts.roles import person
from dalston_queue.audit.record import audited
from dalston_queue.dashboard.security.views import address_of, words


@method_decorator(never_cache, name="dispatch")
@method_decorator(sensitive_post_parameters(), name="dispatch")
class ChangePassword(PasswordChangeView):
    template_name = "dashboard/account/password.html"
    success_url = reverse_lazy("dashboard:password")

    def get_context_data(self, **kwargs: object) -> dict[str, object]:
        provider = settings.DALSTON_OIDC_LABEL if settings.DALSTON_OIDC_ISSUER else ""
        return super().get_context_data(kept_elsewhere=not _is_ours(self.request), provider=provider, **kwargs)

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        """The old password is guessed no faster here than at the login."""
        if not request.user.is_authenticated:
            return super().post(request, *args, **kwargs)
        if not _is_ours(request):
            raise PermissionDenied
        name, now = request.user.get_username(), timezone.now()
        wait = login_throttle.count_attempt(name, address_of(request), now)
        if wait is None:
            return super().post(request, *args, **kwargs)
        context = {"form": self.form_class(request.user), "wait": words(wait)}
        headers = {"Retry-After": str(int(wait.total_seconds()) + 1)}
        return self.render_to_response(self.get_context_data(**context), status=429, headers=headers)

    def form_valid(self, form: PasswordChangeForm) -> HttpResponse:
        user = form.user
        with audited("change_password", f"user {user.get_username()}", **person(self.request)):
            answer = super().form_valid(form)
        login_throttle.clear_attempts(user.get_username(), address_of(self.request))
        messages.success(self.request, "Your password is changed. Your other sessions are signed out.")
        return answer


def _is_ours(request: HttpRequest) -> bool:
    """Whether the user signs in with a password that is kept here."""
    return settings.DALSTON_LOCAL_LOGIN and isinstance(request.user, User) and request.user.has_usable_password()

"""The password page: every user changes their own password. The change is on record and ends their other sessions."""

from django.contrib import messages
from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.views import PasswordChangeView
from django.http import HttpRequest, HttpResponse
from django.urls import reverse_lazy
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from dalston_queue.accounts import login_throttle
from dalston_queue.audit.record import audited
from dalston_queue.dashboard.security.views import address_of, words


@method_decorator(never_cache, name="dispatch")
@method_decorator(sensitive_post_parameters(), name="dispatch")
class ChangePassword(PasswordChangeView):
    template_name = "dashboard/account/password.html"
    success_url = reverse_lazy("dashboard:password")

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        """The old password is guessed no faster here than at the login."""
        if not request.user.is_authenticated:
            return super().post(request, *args, **kwargs)
        name, now = request.user.get_username(), timezone.now()
        wait = login_throttle.count_attempt(name, address_of(request), now)
        if wait is None:
            return super().post(request, *args, **kwargs)
        context = {"form": self.form_class(request.user), "wait": words(wait)}
        headers = {"Retry-After": str(int(wait.total_seconds()) + 1)}
        return self.render_to_response(self.get_context_data(**context), status=429, headers=headers)

    def form_valid(self, form: PasswordChangeForm) -> HttpResponse:
        user = form.user
        with audited("change_password", f"user {user.get_username()}", actor=user.get_username(), user=user):
            answer = super().form_valid(form)
        login_throttle.clear_attempts(user.get_username(), address_of(self.request))
        messages.success(self.request, "Your password is changed. Your other sessions are signed out.")
        return answer

"""Sign-in by the provider: to the provider, back with a code, and out; and the page of a sign-in that failed.

State, nonce and the PKCE verifier are in the session of the browser that began, and count once. Each sign-in that began
counts as a try of its address until it succeeds.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings
from django.contrib.auth import login
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from dalston_queue.accounts import identities, login_throttle
from dalston_queue.accounts.identities import Refused
from dalston_queue.accounts.roles import person
from dalston_queue.audit.record import audited
from dalston_queue.dashboard.security.views import BY_PROVIDER, address_of, words
from dalston_queue.database import before_wait

log = structlog.get_logger(__name__)
BACKEND = "django.contrib.auth.backends.ModelBackend"
_STARTED = "sign_in"
"""In the session: what must come back, by state."""
MAX_STARTED = 5
"""Tabs of one browser that may be at the provider at a time."""
STARTED_S = 600


def _page(view: Callable[[HttpRequest], HttpResponse]) -> Callable[..., Any]:
    """GET only, never cached; 404 where no provider is configured, and a page instead of its errors."""

    def guarded(request: HttpRequest) -> HttpResponse:
        if not settings.DALSTON_OIDC_ISSUER:
            raise Http404
        from dalston_queue.dashboard.sign_in.provider import BadAnswer, Unreachable, exchanges

        try:
            with exchanges.take() as has_slot:
                if has_slot:
                    return view(request)
            log.warning("sign_in.too_many_wait")
            return _failed(request, "unreachable", 503)
        except Unreachable as error:
            log.warning("sign_in.provider_unreachable", error=str(error))
            return _failed(request, "unreachable", 503)
        except BadAnswer as error:
            log.warning("sign_in.bad_answer", error=str(error))
            return _failed(request, "bad_answer", 502)
        except Refused as error:
            log.warning("sign_in.refused", reason=error.refusal.value, user=error.name, groups=error.groups[:20])
            return _failed(request, error.refusal.value, 403, name=error.name)

    return require_GET(never_cache(guarded))


@_page
def start(request: HttpRequest) -> HttpResponse:
    """To the provider."""
    from dalston_queue.dashboard.sign_in.provider import provider

    wanted = _safe(request, request.GET.get("next", ""))
    if request.user.is_authenticated:
        return redirect(wanted)
    attempt, now = secrets.token_hex(8), timezone.now()
    wait = login_throttle.count_attempt(attempt, address_of(request), now)
    if wait is not None:
        log.warning("login.throttled", address=address_of(request))
        return _failed(request, "throttled", 429, wait=wait)
    before_wait()
    redirect_uri = request.build_absolute_uri(reverse("dashboard:sign-in-back"))
    begun = provider().begin(redirect_uri)
    kept = {
        "redirect_uri": redirect_uri,
        "nonce": begun["nonce"],
        "code_verifier": begun["code_verifier"],
        "next": wanted,
        "attempt": attempt,
        "until": (now + timedelta(seconds=STARTED_S)).timestamp(),
    }
    started = {**request.session.get(_STARTED, {}), begun["state"]: kept}
    request.session[_STARTED] = dict(list(started.items())[-MAX_STARTED:])
    return HttpResponseRedirect(begun["url"])


@_page
def back(request: HttpRequest) -> HttpResponse:
    """From the provider, with a code."""
    from dalston_queue.dashboard.sign_in.provider import BadAnswer, provider

    kept = _take(request)
    if kept is None:
        return _failed(request, "stale", 400)
    if request.GET.get("iss", settings.DALSTON_OIDC_ISSUER) != settings.DALSTON_OIDC_ISSUER:
        raise BadAnswer("the answer is of another issuer")
    code, problem = request.GET.get("code", ""), request.GET.get("error", "")
    if not code:
        log.warning("sign_in.refused_by_provider", error=problem[:80])
        return _failed(request, "cancelled" if problem == "access_denied" else "bad_answer", 403)
    before_wait()
    claims = provider().claims(code, kept)
    user = identities.admit(identities.read(claims))
    request.session.flush()
    login(request, user, backend=BACKEND)
    until = timezone.now() + timedelta(seconds=settings.DALSTON_OIDC_SESSION_S)
    request.session.set_expiry(until)
    request.session[BY_PROVIDER] = True
    with audited("login", f"user {user.get_username()}", **person(request)) as row:
        row.after = {"by": "provider", "subject": claims["sub"], "until": until.isoformat(timespec="seconds")}
    login_throttle.clear_attempts(kept["attempt"], address_of(request))
    return redirect(_safe(request, kept["next"]))


@_page
def out(request: HttpRequest) -> HttpResponse:
    """To the provider's own sign-out, for who is signed out here."""
    from dalston_queue.dashboard.sign_in.provider import provider

    before_wait()
    url = provider().sign_out_url(request.build_absolute_uri(reverse("dashboard:login")))
    return HttpResponseRedirect(url) if url else _failed(request, "no_sign_out", 404)


def _take(request: HttpRequest) -> dict[str, Any] | None:
    """What this browser began with this state; a second answer with it finds nothing."""
    started = request.session.get(_STARTED, {})
    kept: dict[str, Any] | None = started.pop(request.GET.get("state", ""), None)
    if kept is None:
        return None
    request.session[_STARTED] = started
    request.session.save()  # not at the end of the request: it waits for the provider
    return kept if kept["until"] > timezone.now().timestamp() else None


def _safe(request: HttpRequest, wanted: str) -> str:
    """A page of ours; the overview instead of any other."""
    ours = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if ours else settings.LOGIN_REDIRECT_URL


def _failed(
    request: HttpRequest, problem: str, status: int, *, name: str = "", wait: timedelta | None = None
) -> HttpResponse:
    context = {
        "problem": problem,
        "label": settings.DALSTON_OIDC_LABEL,
        "name": name,
        "claim": settings.DALSTON_OIDC_NAME_CLAIM,
        "wait": wait and words(wait),
        "by_password": settings.DALSTON_LOCAL_LOGIN,
    }
    answer = render(request, "dashboard/sign_in/failed.html", context, status=status)
    # Django would log the URL, which has the code. Our line is written.
    answer._has_been_logged = True  # type: ignore[attr-defined]  # noqa: SLF001
    if status in (429, 503):
        answer.headers["Retry-After"] = str(math.ceil(wait.total_seconds()) if wait else 10)
    return answer

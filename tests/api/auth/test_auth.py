"""Authentication and scopes: every route × every kind of caller, compared with the tables of docs/api.md."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from dalston_queue.api.api import api as ninja_api
from dalston_queue.models import ApiToken
from dalston_queue.models.accounts import Scope
from tests.api.conftest import Api
from tests.api.documented import MISSING, OPERATIONS, ROUTES, missing, status_of

SCOPES = [scope.value for scope in Scope]


def test_the_page_names_every_route() -> None:
    assert set(ROUTES) == set(OPERATIONS)
    assert all(scopes and scopes <= set(SCOPES) for scopes in ROUTES.values())


@pytest.mark.parametrize(("method", "path"), sorted(ROUTES), ids=lambda part: part)
class TestEveryRoute:
    def test_needs_a_valid_token_or_a_login(self, method: str, path: str, token_for: Callable[..., str]) -> None:
        expired = token_for(*SCOPES, expires_at=timezone.now() - timedelta(seconds=1))
        revoked = token_for(*SCOPES)
        ApiToken.objects.filter(expires_at__isnull=True).update(revoked_at=timezone.now())
        for token, code in [
            (None, "unauthenticated"),
            ("dal_wrong", "token_invalid"),
            (expired, "token_expired"),
            (revoked, "token_revoked"),
        ]:
            answer = Api(token).call(method, missing((method, path)), {})
            assert (answer.status_code, answer.json()["code"]) == (401, code)
            assert answer["WWW-Authenticate"].startswith("Bearer")

    def test_needs_its_scope_and_no_other(self, method: str, path: str, token_for: Callable[..., str]) -> None:
        needed, status = ROUTES[method, path], status_of((method, path))
        for scope in SCOPES:
            answer = Api(token_for(scope)).call(method, missing((method, path)), {})
            if scope in needed:
                assert answer.status_code == status, answer.content
            else:
                assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")
                assert all(name in answer.json()["detail"] for name in needed)

    @pytest.mark.parametrize("staff", [False, True], ids=["viewer", "staff"])
    def test_a_login_reads_and_only_staff_writes(self, method: str, path: str, staff: bool, admin_user: User) -> None:
        needed, status = ROUTES[method, path], status_of((method, path))
        client = Client(raise_request_exception=False)
        client.force_login(admin_user if staff else User.objects.create_user("viewer"))
        answer = Api(client=client).call(method, missing((method, path)), {})
        reads = method == "GET"  # every login reads all projects, as on the pages
        allowed = reads or (staff and needed != {"worker"})  # a worker is a program, with a token of its own
        assert answer.status_code == (status if allowed else 403), answer.content

    def test_a_login_without_the_csrf_token_cannot_write(self, method: str, path: str, admin_user: User) -> None:
        client = Client(raise_request_exception=False, enforce_csrf_checks=True)
        client.force_login(admin_user)
        answer = Api(client=client).call(method, missing((method, path)), {})
        if method == "GET":
            assert answer.status_code == status_of((method, path))
        else:
            assert (answer.status_code, answer.json()["code"]) == (403, "csrf_failed")


def test_a_login_with_the_csrf_token_writes(admin_user: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    client.get("/login/?next=/")
    client.cookies["csrftoken"] = "a" * 32
    answer = Api(client=client).post("/tasks", {"task_type": "echo"}, **{"X-CSRFToken": "a" * 32})
    assert answer.status_code == 201, answer.content


def test_a_wrong_bearer_header_does_not_fall_back_to_the_session(admin_client: Client) -> None:
    assert Api("dal_wrong", admin_client).get(f"/tasks/{MISSING}").status_code == 401
    assert Api(client=admin_client).get(f"/tasks/{MISSING}", Authorization="Basic abc").status_code == 401


def test_use_is_noted_at_most_once_a_minute(token_for: Callable[..., str]) -> None:
    api = Api(token_for("read"))
    api.get(f"/tasks/{MISSING}")
    first = ApiToken.objects.get().last_used_at
    assert first is not None
    api.get(f"/tasks/{MISSING}")
    assert ApiToken.objects.get().last_used_at == first
    ApiToken.objects.update(last_used_at=first - timedelta(minutes=2))
    api.get(f"/tasks/{MISSING}")
    assert ApiToken.objects.get().last_used_at > first - timedelta(minutes=1)


def test_a_route_that_names_no_scope_is_closed() -> None:
    from dalston_queue.api.auth.bearer import CLOSED

    assert ninja_api.auth == CLOSED

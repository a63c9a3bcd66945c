"""Who may call what: every route × every kind of caller, compared with one table. A new route must be added to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from dalston_queue.api.api import api as ninja_api
from dalston_queue.models import ApiToken
from dalston_queue.models.accounts import Scope
from tests.api.conftest import Api

NOBODY = "00000000-0000-7000-8000-000000000000"

# (method, path) -> the scopes that open it, and the answer to somebody who has one and sends an empty body.
ROUTES: dict[tuple[str, str], tuple[set[str], int]] = {
    ("POST", "/tasks"): ({"submit"}, 422),
    ("GET", "/tasks"): ({"read"}, 200),
    ("GET", "/tasks/{task_id}"): ({"read"}, 404),
    ("DELETE", "/tasks/{task_id}"): ({"submit", "operate"}, 404),
    ("POST", "/tasks/{task_id}/requeue"): ({"operate"}, 404),
    ("POST", "/tasks/{task_id}/dead_letter"): ({"operate"}, 422),
    ("POST", "/jobs"): ({"submit"}, 422),
    ("POST", "/jobs:batch"): ({"submit"}, 422),
    ("GET", "/jobs"): ({"read"}, 200),
    ("GET", "/jobs/{job_id}"): ({"read"}, 404),
    ("GET", "/jobs/{job_id}/events"): ({"read"}, 404),
    ("DELETE", "/jobs/{job_id}"): ({"submit", "operate"}, 404),
    ("GET", "/tasks/{task_id}/why"): ({"read"}, 404),
    ("GET", "/queue/stats"): ({"read"}, 200),
    ("GET", "/streams"): ({"read"}, 200),
    ("GET", "/streams/{stage}/pending"): ({"operate"}, 404),
    ("POST", "/streams/{stage}/pause"): ({"operate"}, 404),
    ("POST", "/streams/{stage}/resume"): ({"operate"}, 404),
    ("GET", "/nodes"): ({"read"}, 200),
    ("POST", "/nodes/{node_id}/commands"): ({"operate"}, 422),
    ("GET", "/nodes/{node_id}/commands/{command_id}"): ({"operate"}, 404),
    ("DELETE", "/nodes/{node_id}"): ({"operate"}, 404),
    ("GET", "/nodes/{node_id}/engines/{engine}/logs"): ({"read"}, 404),
    ("POST", "/workers/{worker_id}/drain"): ({"operate"}, 404),
    ("POST", "/workers/{worker_id}/resume"): ({"operate"}, 404),
    ("GET", "/dead_letters"): ({"read"}, 200),
    ("GET", "/dead_letters/groups"): ({"read"}, 200),
    ("POST", "/dead_letters:replay"): ({"operate"}, 422),
    ("GET", "/replay_batches"): ({"operate"}, 200),
    ("GET", "/replay_batches/{replay_batch_id}"): ({"operate"}, 404),
    ("DELETE", "/replay_batches/{replay_batch_id}"): ({"operate"}, 404),
    ("GET", "/dead_letters/{dead_letter_id}"): ({"read"}, 404),
    ("POST", "/dead_letters/{dead_letter_id}/replay"): ({"operate"}, 404),
    ("DELETE", "/dead_letters/{dead_letter_id}"): ({"operate"}, 404),
    ("GET", "/audit"): ({"operate"}, 200),
    ("POST", "/jobs/{job_id}/webhooks/{delivery_id}/send"): ({"submit", "operate"}, 404),
    ("POST", "/internal/workers/register"): ({"worker"}, 422),
    ("POST", "/internal/workers/{worker_id}/poll"): ({"worker"}, 422),
    ("POST", "/internal/workers/{worker_id}/start"): ({"worker"}, 422),
    ("POST", "/internal/workers/{worker_id}/progress"): ({"worker"}, 422),
    ("POST", "/internal/workers/{worker_id}/result"): ({"worker"}, 422),
    ("POST", "/internal/workers/{worker_id}/heartbeat"): ({"worker"}, 422),
    ("DELETE", "/internal/workers/{worker_id}"): ({"worker"}, 404),
}
SCOPES = [scope.value for scope in Scope]


def routes() -> set[tuple[str, str]]:
    schema = ninja_api.get_openapi_schema(path_prefix="")
    return {(method.upper(), path) for path, operations in schema["paths"].items() for method in operations}


def concrete(path: str) -> str:
    for name in ("task_id", "job_id", "dead_letter_id", "replay_batch_id", "delivery_id"):
        path = path.replace(f"{{{name}}}", NOBODY)
    for name in ("stage", "node_id", "worker_id", "command_id", "engine"):
        path = path.replace(f"{{{name}}}", "nosuch")
    return path


def test_the_table_and_the_docs_name_every_route() -> None:
    assert routes() == set(ROUTES)
    docs = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
    for (method, path), (scopes, _) in ROUTES.items():
        [line] = [line for line in docs.splitlines() if line.startswith(f"| `{method} {path}` |")]
        assert set(re.findall(r"`(\w+)`", line.split("|")[2])) == scopes


@pytest.mark.parametrize(("method", "path"), sorted(ROUTES), ids=lambda part: part)
class TestEveryRoute:
    def test_refuses_nobody_and_bad_tokens(self, method: str, path: str, token_for: Callable[..., str]) -> None:
        expired = token_for(*SCOPES, expires_at=timezone.now() - timedelta(seconds=1))
        revoked = token_for(*SCOPES)
        ApiToken.objects.filter(expires_at__isnull=True).update(revoked_at=timezone.now())
        for token, code in [
            (None, "unauthenticated"),
            ("dal_wrong", "token_invalid"),
            (expired, "token_expired"),
            (revoked, "token_revoked"),
        ]:
            answer = Api(token).call(method, concrete(path), {})
            assert (answer.status_code, answer.json()["code"]) == (401, code)
            assert answer["WWW-Authenticate"].startswith("Bearer")

    def test_needs_its_scope_and_no_other(self, method: str, path: str, token_for: Callable[..., str]) -> None:
        needed, status = ROUTES[method, path]
        for scope in SCOPES:
            answer = Api(token_for(scope)).call(method, concrete(path), {})
            if scope in needed:
                assert answer.status_code == status, answer.content
            else:
                assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")
                assert all(name in answer.json()["detail"] for name in needed)

    @pytest.mark.parametrize("staff", [False, True], ids=["viewer", "staff"])
    def test_a_login_reads_and_only_staff_acts(self, method: str, path: str, staff: bool, admin_user: User) -> None:
        needed, status = ROUTES[method, path]
        client = Client(raise_request_exception=False)
        client.force_login(admin_user if staff else User.objects.create_user("viewer"))
        answer = Api(client=client).call(method, concrete(path), {})
        looks = method == "GET"  # everybody looks at everything, as on the pages
        allowed = looks or (staff and needed != {"worker"})  # a worker is a program, with a token of its own
        assert answer.status_code == (status if allowed else 403), answer.content

    def test_a_login_without_the_csrf_token_cannot_write(self, method: str, path: str, admin_user: User) -> None:
        client = Client(raise_request_exception=False, enforce_csrf_checks=True)
        client.force_login(admin_user)
        answer = Api(client=client).call(method, concrete(path), {})
        if method == "GET":
            assert answer.status_code == ROUTES[method, path][1]
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
    assert Api("dal_wrong", admin_client).get(f"/tasks/{NOBODY}").status_code == 401
    assert Api(client=admin_client).get(f"/tasks/{NOBODY}", Authorization="Basic abc").status_code == 401


def test_use_is_noted_at_most_once_a_minute(token_for: Callable[..., str]) -> None:
    api = Api(token_for("read"))
    api.get(f"/tasks/{NOBODY}")
    first = ApiToken.objects.get().last_used_at
    assert first is not None
    api.get(f"/tasks/{NOBODY}")
    assert ApiToken.objects.get().last_used_at == first
    ApiToken.objects.update(last_used_at=first - timedelta(minutes=2))
    api.get(f"/tasks/{NOBODY}")
    assert ApiToken.objects.get().last_used_at > first - timedelta(minutes=1)


def test_a_route_that_names_no_scope_is_closed() -> None:
    from dalston_queue.api.auth.bearer import CLOSED

    assert ninja_api.auth == CLOSED

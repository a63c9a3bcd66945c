"""Login, logout, error pages and headers."""

from __future__ import annotations

import contextlib
import re

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.test import Client

pytestmark = pytest.mark.django_db


def test_the_overview_needs_a_login(client: Client) -> None:
    answer = client.get("/")
    assert (answer.status_code, answer["Location"]) == (302, "/login/?next=/")


def test_the_login_page_redirects_to_the_wanted_page(client: Client) -> None:
    User.objects.create_user("ada", password="a long pass phrase")
    page = client.get("/login/?next=/api/v1/docs")
    assert b"Sign in" in page.content
    wrong = client.post("/login/", {"username": "ada", "password": "no"})
    assert b"do not match" in wrong.content
    right = client.post("/login/", {"username": "ada", "password": "a long pass phrase", "next": "/api/v1/docs"})
    assert right["Location"] == "/api/v1/docs"


def test_logout_is_a_post_and_ends_the_session(client: Client) -> None:
    client.force_login(User.objects.create_user("ada"))
    assert client.get("/logout/").status_code == 405
    assert client.post("/logout/")["Location"] == "/login/"
    assert client.get("/").status_code == 302


@pytest.mark.parametrize("path", ["/login/", "/nothing-here", "/api/v1/docs", "/admin/login/"])
def test_pages_have_a_policy_and_no_inline_code(client: Client, path: str) -> None:
    page = client.get(path)
    policy = page["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    text = page.content.decode()
    assert not re.search(r"<script(?![^>]*\b(src=|type=\"application/json\"))", text)
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=\"", text)
    assert not re.search(r"(src|href)=\"(https?:)?//", text)


def test_error_pages_are_ours(client: Client) -> None:
    page = client.get("/nothing-here")
    assert page.status_code == 404
    assert b"Page not found" in page.content
    refused = Client(enforce_csrf_checks=True).post("/login/", {"username": "a", "password": "b"})
    assert refused.status_code == 403
    assert b"It was too old" in refused.content


def test_the_500_page_renders_without_any_context() -> None:
    from django.template.loader import render_to_string

    assert "Internal error" in render_to_string("500.html")


@pytest.mark.django_db(transaction=True)
def test_when_postgres_hangs_up_the_page_says_so(client: Client) -> None:
    client.force_login(User.objects.create_user("ada"))
    with contextlib.suppress(OperationalError), connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    page = client.get("/")
    connection.close()
    assert (page.status_code, page["Retry-After"]) == (503, "5")
    assert b"Postgres does not answer" in page.content
    assert client.get("/").status_code == 200

"""Whatever a query string says, no page answers 500: each field of each page gets what no browser sends."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests.dashboard.dead_letters.make import make_dead_letter

pytestmark = [pytest.mark.django_db, pytest.mark.keeps_keys, pytest.mark.usefixtures("broker")]
PAGES = ("/audit/", "/dead-letters/", "/dead-letters/replay/", "/jobs/", "/limits/", "/queues/echo/", "/tokens/")
OTHERS = ("/", "/alerts/", "/nodes/", "/queues/", "/transcriptions/")
FEW = ("a:\0", "9" * 40)
MANY = ("\0", "-1", "0001-01-01T00:00", "🦀'\"<", ".:x", "1e400")


def fields_of(html: str) -> set[str]:
    """The names of its forms' fields, and those in its links."""
    names = re.findall(r'name="([a-z_]+)"', html) + re.findall(r"[?;]([a-z_]+)=", html)
    return set(names) - {"csrfmiddlewaretoken", "viewport"}


def try_all(client: Client, page: str, values: tuple[str, ...]) -> None:
    make_dead_letter()
    fields = fields_of(client.get(page).content.decode()) | {"limit", "project", "cursor", "after", "revoke"}
    for field in sorted(fields):
        for value in values:
            assert client.get(page, {field: value}).status_code < 500, (field, value)


@pytest.mark.parametrize("page", PAGES)
def test_no_field_of_a_page_breaks_it(admin_client: Client, page: str) -> None:
    try_all(admin_client, page, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES + OTHERS)
def test_no_value_of_a_field_breaks_a_page(admin_client: Client, page: str) -> None:
    try_all(admin_client, page, FEW + MANY)
